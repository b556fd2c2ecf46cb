#!/bin/sh
# Make the virtual environment named by the first argument, or leave it alone when it already works.
# Needs nothing but a Python; every way that fails is silent, and the end is one line that says what to do.
set -u
venv=${1:?usage: make_venv.sh FOLDER}

is_new_enough() {
    "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null
}

works() {
    is_new_enough "$venv/bin/python" && "$venv/bin/python" -m pip --version >/dev/null 2>&1
}

find_python() {
    for candidate in ${PYTHON:-python3 python3.14 python3.13 python3.12 python3.11}; do
        if is_new_enough "$candidate"; then
            command -v "$candidate"
            return
        fi
    done
    found=$("${PYTHON:-python3}" --version 2>/dev/null || echo "no ${PYTHON:-python3}")
    echo "agentkit needs Python 3.11 or newer and found $found: install one, or name it with 'make PYTHON=/path/to/python'" >&2
    return 1
}

with_pip_of_its_own() {
    "$python" -m venv --clear "$venv"
}

# Debian splits pip's installer off into python3-venv, but not the rest of venv.
with_pip_of_the_host() {
    "$python" -m venv --clear --without-pip "$venv" &&
        site_packages=$("$venv/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))') &&
        "$python" -m pip install --quiet --target "$site_packages" pip
}

with_virtualenv() {
    "$python" -m virtualenv --clear "$venv"
}

works && exit 0
python=$(find_python) || exit 1
# What follows clears the folder, so it had better be ours.
if [ -n "$(ls -A "$venv" 2>/dev/null)" ] && [ ! -e "$venv/pyvenv.cfg" ]; then
    echo "$venv is in use and is no virtual environment: name another with 'make VENV=FOLDER'" >&2
    exit 1
fi
for way in with_pip_of_its_own with_pip_of_the_host with_virtualenv; do
    "$way" >/dev/null 2>&1 && works && exit 0
done
echo "could not make a virtual environment in $venv with $python: 'apt install python3-venv' and try again" >&2
exit 1
