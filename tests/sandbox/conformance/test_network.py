"""A sandbox with an ``Allowlist``: the listed hosts, through the owner's proxy, and nothing else (SPEC 12.9).

Names of hosts stand for servers of this machine. Where the guard against inner addresses is meant, it is the real one.
"""

from __future__ import annotations

import asyncio
import io
import subprocess
import zipfile
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from textwrap import indent

import pytest

from agentkit.sandbox.guest import Connection, ProcessPlan
from agentkit.sandbox.network.addresses import objection_to
from agentkit.sandbox.network.proxy import AllowlistProxy, Refused, proxy_variables
from agentkit.sandbox.network.relay import StreamConnection
from agentkit.sandbox.spec import Allowlist
from tests.sandbox.box import Box, Boxes, Ran
from tests.sandbox.engines import eventually, needs
from tests.sandbox.git_server import git_server
from tests.sandbox.streams import Peer, answering, serving

pytestmark = needs("process_tree", "allowlist")

HOSTS = Allowlist(["packages.example", "*.files.example", "inner.example"])
HI = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi"
CONNECT = """
import socket
for host, port in {targets!r}:
    try:
        socket.create_connection((host, port), 2).close()
        print('reached', host, port)
    except OSError:
        pass
"""
FETCH = """
import sys, urllib.request
try:
    print(urllib.request.urlopen(sys.argv[1], timeout=20).read().decode())
except OSError as error:
    print(error)
    print(getattr(error, "read", bytes)().decode())
"""


@dataclass(slots=True)
class Outside:
    """What lies beyond the proxy.

    Attributes:
        port: Of the server that every public address leads to.
        inner: Names that resolve to addresses of the inside.
        refused: What the owner was told.
    """

    port: int = 0
    inner: dict[str, str] = field(default_factory=dict)
    refused: list[Refused] = field(default_factory=list)

    async def resolve(self, host: str, port: int) -> Sequence[str]:
        """Find a name."""
        return [self.inner.get(host, "203.0.113.7")]

    async def connect(self, address: str, port: int) -> Connection:
        """Connect to the server in an address's place."""
        assert objection_to(address) is None
        return StreamConnection(*await asyncio.open_connection("127.0.0.1", self.port))

    def proxy(self) -> AllowlistProxy:
        """Return a proxy with the real guard."""
        return AllowlistProxy(HOSTS.hosts, on_refused=self.refused.append, resolve=self.resolve, connect=self.connect)


@pytest.fixture
def outside() -> Outside:
    """Return what lies beyond the proxy."""
    return Outside()


@pytest.fixture
async def online(boxes: Boxes, outside: Outside) -> AsyncIterator[Box]:
    """Return a sandbox whose owner serves the proxy."""
    box = await boxes.start(network=HOSTS)
    proxy = outside.proxy()
    await (await box.inside()).serve_proxy(proxy.handle)
    yield box
    await box.leave()
    await proxy.close()


async def run(box: Box, *argv: str) -> Ran:
    """Run a command that knows of the proxy."""
    return await box.run(*argv, env=proxy_variables())


async def fetch(box: Box, url: str) -> str:
    """Return what a program inside gets from a URL, or why it gets nothing."""
    return (await run(box, "python3", "-c", FETCH, url)).text


async def test_listed_host_is_reached(online: Box, outside: Outside) -> None:
    """Programs find the proxy by their environment, and through it the host."""
    async with answering(HI) as server:
        outside.port = server.port

        received = [await fetch(online, f"http://{host}/x") for host in ("packages.example", "a.b.files.example")]

    assert received == ["hi", "hi"]
    assert server.heads[0].startswith(b"GET /x HTTP/1.1\r\nhost: packages.example\r\n")


async def test_other_hosts_are_refused_by_name(online: Box, outside: Outside) -> None:
    """A program shows which host it was, and the owner is told; nobody is connected to."""
    async with answering(HI) as server:
        outside.port = server.port

        plain = await fetch(online, "http://elsewhere.example/")
        secure = await fetch(online, "https://elsewhere.example/")
        other_port = await fetch(online, "http://packages.example:8080/")

    assert "elsewhere.example" in plain
    assert "Allowlist" in plain
    assert "elsewhere.example:443" in secure
    assert "only the ports 80 and 443" in other_port
    assert [refused.host for refused in outside.refused] == ["elsewhere.example"] * 2 + ["packages.example"]
    assert server.accepted == 0


@pytest.mark.parametrize("address", ["169.254.169.254", "127.0.0.1", "10.0.0.1", "::1"])
async def test_listed_name_leads_to_no_inner_address(online: Box, outside: Outside, address: str) -> None:
    """Neither the metadata service nor this machine nor its network is reached by a name that is allowed."""
    outside.inner = {"inner.example": address}
    async with answering(HI) as server:
        outside.port = server.port

        received = await fetch(online, "http://inner.example/latest/meta-data/")

    assert "not of the public internet" in received
    assert server.accepted == 0


async def test_addresses_are_reached_neither_by_the_proxy_nor_around_it(online: Box, boxes: Boxes) -> None:
    """The metadata service, this machine, a public address and a sibling: refused by the proxy, and without a route."""
    sibling = await boxes.start("sibling", network=HOSTS)
    await sibling.sh("python3 -m http.server 8000 >/dev/null 2>&1 &")
    targets = [("169.254.169.254", 80), ("172.17.0.1", 2375), ("203.0.113.7", 80), ("172.17.0.2", 8000)]

    around = await online.run("python3", "-c", CONNECT.format(targets=targets))
    through = [await fetch(online, f"http://{host}/") for host, _ in targets]

    assert around.text == ""
    assert all("is not on the sandbox's Allowlist" in said for said in through)


async def test_tunnel_goes_both_ways(online: Box, outside: Outside) -> None:
    """What a tunnel carries is whole, both ways, and each side may end first."""

    async def answer(peer: Peer) -> None:
        received = await peer.rest()
        await peer.send(b"%d:" % len(received) + received[::-1])

    program = """
import socket
tunnel = socket.create_connection(("127.0.0.1", 3128))
tunnel.sendall(b"CONNECT packages.example:443 HTTP/1.1\\r\\nHost: packages.example\\r\\n\\r\\n")
head = b""
while not head.endswith(b"\\r\\n\\r\\n"):
    head += tunnel.recv(1)
sent = bytes(range(256)) * 8000
tunnel.sendall(sent)
tunnel.shutdown(socket.SHUT_WR)
received = b""
while data := tunnel.recv(65536):
    received += data
print(head.split()[1], received == b"%d:" % len(sent) + sent[::-1])
"""
    async with serving(answer) as server:
        outside.port = server.port

        ran = await online.run("python3", "-c", program)

    assert ran.text == "b'200' True"


async def test_no_network_while_the_owner_is_away(online: Box, outside: Outside) -> None:
    """With the owner gone a program that goes on reaches nothing, until the next owner serves it (SPEC 12.9)."""
    script = f"import sys\nsys.argv.append('http://packages.example/')\nwhile True:\n{indent(FETCH, ' ')}"
    async with answering(HI) as server:
        outside.port = server.port
        guest = await online.inside()
        plan = ProcessPlan(name="loop", argv=("python3", "-u", "-c", script), cwd="/", env=proxy_variables())
        await guest.start_process(plan)
        await eventually(lambda: _said(online, "hi"))

        await guest.close()
        guest = await online.inside()
        await eventually(lambda: _said(online, "refused"))
        alone = (await _log(online)).splitlines()[-1]
        proxy = outside.proxy()
        await guest.serve_proxy(proxy.handle)
        await eventually(lambda: _ends_with(online, "hi"))

    await proxy.close()
    assert alone != "hi"


async def _log(box: Box) -> str:
    return b"".join([data async for data in (await box.inside()).logs("loop", follow=False)]).decode()


async def _said(box: Box, text: str) -> bool:
    return text in await _log(box)


async def _ends_with(box: Box, line: str) -> bool:
    return (await _log(box)).rstrip().rpartition("\n")[2] == line


def wheel(name: str) -> bytes:
    """Return a package that pip can install."""
    buffer = io.BytesIO()
    about = f"{name}-1.0.dist-info"
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr(f"{name}.py", "ANSWER = 42\n")
        archive.writestr(f"{about}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        archive.writestr(f"{about}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{about}/RECORD", "")
    return buffer.getvalue()


async def test_packages_are_installed(online: Box, outside: Outside) -> None:
    """pip reads its index and the files it names through the proxy."""
    page = b'<html><body><a href="http://cdn.files.example/answer-1.0-py3-none-any.whl">answer-1.0-py3-none-any.whl</a>'

    async def answer(peer: Peer) -> None:
        head = await peer.until(b"\r\n\r\n")
        body, kind = (wheel("answer"), b"application/zip") if b".whl" in head else (page, b"text/html")
        await peer.send(b"HTTP/1.1 200 OK\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n" % (kind, len(body)) + body)

    async with serving(answer) as server:
        outside.port = server.port
        options = ["--index-url=http://packages.example/simple", "--disable-pip-version-check", "--no-cache-dir"]
        trusted = [
            "--trusted-host=packages.example",
            "--trusted-host=cdn.files.example",
            "--target=/workspace/installed",
        ]

        installed = await run(online, "python3", "-m", "pip", "install", *options, *trusted, "answer")

    answer_given = await online.run("python3", "-c", "import answer; print(answer.ANSWER)", cwd="/workspace/installed")
    assert installed.code == 0, installed.stderr
    assert answer_given.text == "42"


async def test_repositories_are_cloned(online: Box, outside: Outside, tmp_path: Path) -> None:
    """git works through the proxy."""
    (tmp_path / "repo").mkdir()
    (tmp_path / "repo" / "a.txt").write_text("a\n")
    for words in ("init -q", "add .", "-c user.name=A -c user.email=a@example.com commit -q -m First"):
        subprocess.run(["git", *words.split()], cwd=tmp_path / "repo", check=True)
    with git_server(tmp_path) as server:
        outside.port = server.port

        cloned = await run(online, "git", "clone", "--quiet", "http://packages.example/repo/.git", "/workspace/repo")

    assert cloned.code == 0, cloned.stderr
    assert await online.read("/workspace/repo/a.txt") == b"a\n"
