"""What code inside can't do (SPEC 12.9), looked at from inside."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from agentkit.sandbox.spec import Allowlist
from tests.sandbox.box import Box, Boxes
from tests.sandbox.engines import needs

pytestmark = needs("isolation")

_CONNECT = """
import socket, sys
for host, port in {targets!r}:
    try:
        socket.create_connection((host, port), 2).close()
        print('reached', host, port)
    except OSError:
        pass
"""


async def status(box: Box, user: str | None = None) -> dict[str, str]:
    """Return what the kernel says of a command inside."""
    lines = (await box.sh("cat /proc/self/status", user=user)).splitlines()
    return {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}


async def test_commands_have_no_privileges(box: Box) -> None:
    """No capability in any set, no way to gain one, and a filter of system calls."""
    found = await status(box)

    assert {name: int(found[name], 16) for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")} == {
        "CapInh": 0,
        "CapPrm": 0,
        "CapEff": 0,
        "CapBnd": 0,
        "CapAmb": 0,
    }
    assert found["NoNewPrivs"] == "1"
    assert found["Seccomp"] == "2"
    assert found["Uid"].split() == ["1000"] * 4
    assert found["Gid"].split() == ["1000"] * 4


@needs("other_users")
async def test_root_inside_has_no_privileges(box: Box) -> None:
    """A command as root is as powerless as any other."""
    found = await status(box, user="0:0")

    assert [int(found[name], 16) for name in ("CapPrm", "CapEff", "CapBnd")] == [0, 0, 0]
    assert (found["NoNewPrivs"], found["Seccomp"]) == ("1", "2")


async def test_main_process_is_no_more_than_its_commands(box: Box) -> None:
    """Nothing inside is worth taking over: every process has the same user and no capabilities."""
    line = "cat /proc/[0-9]*/status | grep -E '^(Uid|CapEff|CapPrm|CapBnd)' | tr -s '\\t ' ' ' | sort -u"

    found = (await box.sh(line)).splitlines()

    capabilities = [line for line in found if line.startswith("Cap")]
    assert {int(line.split()[1], 16) for line in capabilities} == {0}
    assert {line for line in found if line.startswith("Uid")} <= {"Uid: 1000 1000 1000 1000"}


@pytest.mark.parametrize(
    "attempt",
    [
        "unshare -U true",
        "unshare -r true",
        "mount -t tmpfs none /mnt",
        "mknod /tmp/device b 254 0",
        "chroot / true",
        "echo 1 >/proc/sys/kernel/sysrq",
        "echo c >/proc/sysrq-trigger",
        "echo x >/proc/sys/kernel/core_pattern",
        "cat /proc/kcore",
        "dmesg",
        "chown 0:0 /workspace",
        "date -s 2000-01-01",
        "ls /proc/1/root/",
    ],
)
async def test_attempt_is_refused(box: Box, attempt: str) -> None:
    """What needs privileges fails."""
    ran = await box.run(shell=f"({attempt}) >/dev/null 2>&1")

    if attempt.startswith("ls /proc/1/root"):
        # The first process may be looked at where it is of the same user; its root is the sandbox's own.
        assert ran.code != 0 or await box.sh("stat -Lc %d:%i /proc/1/root/ /") == await box.sh("stat -c %d:%i / /")
    else:
        assert ran.code != 0


async def test_nothing_of_the_host_is_there(box: Box, tmp_path: Path) -> None:
    """Neither files of the host, nor its processes, nor an engine's socket can be seen."""
    (tmp_path / "host-secret").write_text("secret")
    line = f"cat {tmp_path}/host-secret; ls -d /var/run/docker.sock /run/docker.sock /run/containerd /dev/mem /dev/sd*"

    seen = await box.run(shell=f"{line} /dev/vd* /dev/nvme* {Path.home()}/.ssh {os.getcwd()} 2>/dev/null")
    processes = await box.sh("cat /proc/[0-9]*/cmdline | tr '\\0' ' '")

    assert seen.text == ""
    assert "pytest" not in processes
    assert "dockerd" not in processes


async def test_no_network_reaches_nothing(boxes: Boxes, box: Box) -> None:
    """Without a network there is no way to the host, a metadata service, a public address, or a sibling (SPEC 12.9)."""
    sibling = await boxes.start("sibling")
    await sibling.sh("python3 -m http.server 8000 >/dev/null 2>&1 &")
    addresses = (await sibling.sh("cat /proc/net/fib_trie")).split()
    hosts = {address for address in addresses if address.count(".") == 3 and "/" not in address}
    with socket.create_server(("0.0.0.0", 0)) as listener:
        port = listener.getsockname()[1]
        targets = [(host, 8000) for host in hosts - {"127.0.0.0", "127.0.0.1", "127.255.255.255"}]
        targets += [(host, port) for host in ("172.17.0.1", "10.0.2.2", "127.0.0.1", "192.168.0.1", _own_address())]
        targets += [("169.254.169.254", 80), ("1.1.1.1", 443), ("8.8.8.8", 53)]

        reached = await box.run("python3", "-c", _CONNECT.format(targets=targets))

    interfaces = await box.sh("tail -n +3 /proc/net/dev | cut -d: -f1 | tr -d ' '")
    assert reached.text == ""
    assert reached.code == 0
    assert interfaces.split() in (["lo"], [])


@needs("allowlist")
async def test_allowlist_alone_reaches_nothing(boxes: Boxes) -> None:
    """Where nobody serves the proxy, a sandbox with a list of hosts has no network either."""
    box = await boxes.start(network=Allowlist(["example.org"]))

    reached = await box.run("python3", "-c", _CONNECT.format(targets=[("1.1.1.1", 443), ("169.254.169.254", 80)]))

    assert (reached.text, reached.code) == ("", 0)


@needs("network")
async def test_full_network_has_an_interface(boxes: Boxes) -> None:
    """A sandbox with the engine's plain network has an address and a way out."""
    box = await boxes.start(network="full")

    routes = (await box.sh("cat /proc/net/route")).splitlines()[1:]

    assert any(route.split()[1] == "00000000" for route in routes)


async def test_secrets_of_a_command_are_its_own(box: Box) -> None:
    """A variable of one command shows in no other place: no list of processes, no file, no later command."""
    secret = "hunter2-hunter2"
    line = "cat /proc/[0-9]*/cmdline | tr '\\0' ' '; env; grep -rs hunter2 /run /tmp /home/agent /workspace; true"

    during = await box.sh("cat /proc/[0-9]*/cmdline | tr '\\0' ' '", env={"TOKEN": secret})
    after = await box.sh(line)

    # The line that looks for it has its first word.
    assert secret not in during
    assert secret not in after


def _own_address() -> str:
    """Return an address of this machine that isn't the loopback one."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect(("192.0.2.1", 9))
        return str(probe.getsockname()[0])
