#!/usr/bin/env bash
# Make a Docker image for sandboxes out of this machine's own package sources, without a registry: its Debian or Ubuntu
# with git and Python, and with the certificates that this machine trusts besides those of its distribution.
#   tools/sandbox_image.sh [IMAGE]    as root, with mmdebstrap and a running Docker; IMAGE is agentkit-test
set -euo pipefail

image=${1:-agentkit-test}
packages=ca-certificates,git,python3,python3-pip,python3-venv
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
suite=$(. /etc/os-release && echo "${VERSION_CODENAME:?}")

# Sources of others, which may not even have this suite, stay out.
find_sources() {
    local of_suite="(^|\n)Suites:[ \t]*$suite(-[a-z-]+)?([ \t\n]|$)"
    cat /dev/null /etc/apt/sources.list.d/*.sources 2>/dev/null |
        awk -v RS= -v ORS='\n\n' -v of_suite="$of_suite" '$0 ~ of_suite' >"$work/machine.sources"
    cat /dev/null /etc/apt/sources.list /etc/apt/sources.list.d/*.list 2>/dev/null |
        grep -E "^deb[ \t]+(\[[^]]*\][ \t]+)?[^ \t]+[ \t]+$suite([-/][a-z-]+)?[ \t]" >"$work/machine.list" || true
    for file in "$work/machine.sources" "$work/machine.list"; do
        [ ! -s "$file" ] || sources+=("$file")
    done
}

# How this machine reaches its package sources; not part of the image.
find_apt_options() {
    local file
    for file in $(grep -lsE 'Acquire::.*(Proxy|CAInfo|CaInfo|Verify)' /etc/apt/apt.conf /etc/apt/apt.conf.d/*); do
        options+=("--aptopt=$file")
    done
}

# Runs on the new system before it is packed; its argument is the folder that holds it.
write_finish() {
    cat >"$work/finish" <<'FINISH'
import os, re, subprocess, sys
from pathlib import Path

root = Path(sys.argv[1])
bundle = "etc/ssl/certs/ca-certificates.crt"
theirs = Path(os.environ.get("SSL_CERT_FILE") or f"/{bundle}")
pattern = re.compile(r"-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----", re.DOTALL)
known = set(pattern.findall((root / bundle).read_text()))
more = [one for one in pattern.findall(theirs.read_text()) if one not in known] if theirs.is_file() else []
for number, certificate in enumerate(more):
    (root / f"usr/local/share/ca-certificates/machine-{number}.crt").write_text(certificate + "\n")
if more:
    subprocess.run(["chroot", str(root), "update-ca-certificates"], check=True, capture_output=True)

# A pip that was upgraded inside looks at its own certificates only.
pip = {"cert": f"/{bundle}"} if more else {}
for name in ("index-url", "extra-index-url", "trusted-host"):
    value = os.environ.get("PIP_" + name.upper().replace("-", "_"), "")
    if value and "file:" not in value:
        pip[name] = value
if pip:
    lines = [f"{name} = {value}" for name, value in pip.items()]
    (root / "etc/pip.conf").write_text("\n".join(["[global]", *lines, ""]))
(root / "etc/apt/apt.conf.d/99mmdebstrap").unlink(missing_ok=True)
FINISH
}

# A proxy on this machine's loopback interface is out of a container's reach.
find_changes() {
    local name value
    for name in http_proxy https_proxy no_proxy HTTP_PROXY HTTPS_PROXY NO_PROXY; do
        value=${!name:-}
        case $value in '' | *localhost* | *127.0.0.1* | *'[::1]'*) ;; *) changes+=(--change "ENV $name=$value") ;; esac
    done
}

sources=() options=() changes=(--change 'CMD ["bash"]')
find_sources
find_apt_options
find_changes
write_finish
if ((${#sources[@]} == 0)); then
    echo "no package sources of $suite in /etc/apt" >&2
    exit 1
fi
for kept_out in man doc locale; do
    options+=("--dpkgopt=path-exclude=/usr/share/$kept_out/*")
done

mmdebstrap --quiet --variant=minbase --include="$packages" "${options[@]}" \
    --customize-hook="python3 '$work/finish' \"\$1\"" "$suite" "$work/system.tar" "${sources[@]}"
docker import "${changes[@]}" "$work/system.tar" "$image" >/dev/null
echo "made the image $image of $suite"
