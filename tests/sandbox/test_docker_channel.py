"""The way to a program in a container: nothing of its output is lost, over any transport, with little memory."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import tracemalloc
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from docker.tls import TLSConfig

from agentkit.errors import (
    EngineUnavailableError,
    SandboxBusyError,
    SandboxConnectionError,
    SandboxError,
    SandboxStoppedError,
)
from agentkit.sandbox.channel import STDERR, STDOUT, OneOffChannel
from agentkit.sandbox.docker.channel import DockerProgram
from agentkit.sandbox.docker.client import Address, DockerClient
from agentkit.sandbox.docker.connection import request
from agentkit.sandbox.docker_engine import DockerEngine
from tests.sandbox.box import Box

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
_UPGRADED = b"HTTP/1.1 101 UPGRADED\r\nContent-Type: application/vnd.docker.raw-stream\r\nUpgrade: tcp\r\n\r\n"


def frame(kind: int, data: bytes) -> bytes:
    """Return a piece of output as the engine frames it."""
    return bytes([kind, 0, 0, 0]) + len(data).to_bytes(4) + data


@contextlib.asynccontextmanager
async def served(folder: Path, serve: Serve) -> AsyncIterator[Address]:
    """Give the address of an engine that does one thing with each connection, once it has read the request's head."""

    async def take(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        with contextlib.suppress(ConnectionError):
            await serve(reader, writer)
        writer.close()

    path = str(folder / "socket")
    async with await asyncio.start_unix_server(take, path):
        yield Address(url=f"unix://{path}", path=path)


async def opened(address: Address) -> DockerProgram:
    """Return a program over a new connection."""

    async def exit_code() -> int:
        return 0

    return DockerProgram(await request(address, "/exec/1/start", {}), exit_code)


async def all_of(program: DockerProgram) -> tuple[bytes, bytes]:
    """Return both of a program's outputs."""
    out = {STDOUT: bytearray(), STDERR: bytearray()}
    while (piece := await program.read()) is not None:
        out[piece[0]] += piece[1]
    await program.close()
    return bytes(out[STDOUT]), bytes(out[STDERR])


async def test_first_bytes_are_never_lost(tmp_path: Path) -> None:
    """Output in the same packet as the answer's head arrives, a thousand times of a thousand (report 10)."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(_UPGRADED + frame(1, b"first") + frame(2, b"error") + frame(1, b"") + frame(1, b" last"))
        await writer.drain()

    async with served(tmp_path, serve) as address:
        seen = {await all_of(await opened(address)) for _ in range(1000)}

    assert seen == {(b"first last", b"error")}


async def test_frames_may_be_cut_anywhere(tmp_path: Path) -> None:
    """Head and frames that come byte by byte are the same."""
    content = _UPGRADED + frame(1, b"out" * 100) + frame(2, b"err" * 100)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for number in range(len(content)):
            writer.write(content[number : number + 1])
            await asyncio.sleep(0)

    async with served(tmp_path, serve) as address:
        seen = await all_of(await opened(address))

    assert seen == (b"out" * 100, b"err" * 100)


async def test_output_that_nobody_reads_stays_where_it_is(tmp_path: Path) -> None:
    """A program that prints on while nobody reads costs a fixed amount of memory, and all arrives later."""
    sent = 0

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        writer.write(_UPGRADED)
        for _ in range(400):
            writer.write(frame(1, bytes(100_000)))
            await writer.drain()
            sent += 1

    async with served(tmp_path, serve) as address:
        program = await opened(address)
        tracemalloc.start()
        await asyncio.sleep(0.3)
        held, _ = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        sent_unread = sent
        out, _ = await all_of(program)

    assert sent_unread < 40
    assert held < 2 << 20
    assert len(out) == 40_000_000


async def test_large_frame_comes_in_pieces(tmp_path: Path) -> None:
    """One frame of many megabytes is never in memory as a whole."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(_UPGRADED + bytes([1, 0, 0, 0]) + (32 << 20).to_bytes(4))
        for _ in range(32):
            writer.write(bytes(1 << 20))
            await writer.drain()

    async with served(tmp_path, serve) as address:
        channel = OneOffChannel(await opened(address))
        sizes = []
        while data := await channel.read():
            sizes.append(len(data))
        await channel.close()

    assert sum(sizes) == 32 << 20
    assert max(sizes) <= 64 << 10


async def test_connection_that_breaks_is_no_end(tmp_path: Path) -> None:
    """Output cut off in the middle of a frame is an error, not a shorter output (report 14)."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(_UPGRADED + frame(1, b"whole") + frame(1, b"half of it")[:-3])
        await writer.drain()

    async with served(tmp_path, serve) as address:
        program = await opened(address)
        with pytest.raises(SandboxConnectionError):
            await all_of(program)
        await program.close()
        with pytest.raises(SandboxConnectionError):
            await program.write(b"x")


async def test_errors_of_a_program_are_kept_for_messages(tmp_path: Path) -> None:
    """A channel keeps the last of its standard error and gives the rest away."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(_UPGRADED + frame(2, b"x" * 100_000) + frame(2, b"the reason") + frame(1, b"out"))
        await writer.drain()

    async with served(tmp_path, serve) as address:
        channel = OneOffChannel(await opened(address))
        data = await channel.read()
        await channel.close()

    assert data == b"out"
    assert channel.errors().endswith("the reason")
    assert len(channel.errors()) < 10_000


@pytest.mark.parametrize(
    ("status", "message", "error"),
    [
        (409, "Container abc is paused, unpause the container before exec", SandboxBusyError),
        (409, "Container abc is not running", SandboxStoppedError),
        (404, "No such container: abc", SandboxStoppedError),
        (500, "something else", SandboxError),
    ],
)
async def test_refusal_is_told(tmp_path: Path, status: int, message: str, error: type[Exception]) -> None:
    """What the engine says instead of a stream becomes the error it means (T10, T20)."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        body = f'{{"message":"{message}"}}'
        writer.write(
            f"HTTP/1.1 {status} No\r\nTransfer-Encoding: chunked\r\n\r\n{len(body):x}\r\n{body}\r\n0\r\n\r\n".encode()
        )
        await writer.drain()

    async with served(tmp_path, serve) as address:
        with pytest.raises(error) as told:
            await opened(address)

    assert type(told.value) is error


@pytest.mark.parametrize("answer", [b"", b"HTTP/1.1", b"nonsense\r\n\r\n"])
async def test_what_is_no_engine_is_told(tmp_path: Path, answer: bytes) -> None:
    """Something that doesn't speak HTTP, or hangs up, is an engine that can't be reached."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(answer)
        await writer.drain()

    async with served(tmp_path, serve) as address:
        with pytest.raises(EngineUnavailableError, match=address.url):
            await opened(address)


# --- over a real engine


def certificates(folder: Path) -> tuple[str, str]:
    """Make a certificate for 127.0.0.1 and return where it and its key are."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    now = datetime.now(UTC)
    names = x509.SubjectAlternativeName([x509.DNSName("localhost")])
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(names, critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    (folder / "cert.pem").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    plain = serialization.NoEncryption()
    (folder / "key.pem").write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, plain)
    )
    return str(folder / "cert.pem"), str(folder / "key.pem")


@contextlib.asynccontextmanager
async def forwarded(tls: ssl.SSLContext | None) -> AsyncIterator[int]:
    """Give a TCP port that leads to the machine's engine."""
    target = DockerClient(None, None).address.path

    async def copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(65536):
                writer.write(data)
                await writer.drain()
            if writer.can_write_eof():
                writer.write_eof()

    async def take(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        engine_reader, engine_writer = await asyncio.open_unix_connection(target)
        copies = [asyncio.create_task(copy(reader, engine_writer)), asyncio.create_task(copy(engine_reader, writer))]
        under_way.extend(copies)
        await asyncio.wait(copies)
        for each in (writer, engine_writer):
            each.close()

    under_way: list[asyncio.Task[None]] = []
    async with await asyncio.start_server(take, "localhost", 0, ssl=tls) as server:
        yield server.sockets[0].getsockname()[1]
        for task in under_way:
            task.cancel()
        await asyncio.gather(*under_way, return_exceptions=True)
        # The connections themselves are closed in the next rounds of the loop.
        await asyncio.sleep(0.05)


@pytest.mark.docker
@pytest.mark.parametrize("engine", ["docker"], indirect=True)
@pytest.mark.parametrize("transport", ["unix", "tcp", "tls"])
async def test_every_transport_leads_inside(box: Box, tmp_path: Path, transport: str) -> None:
    """Over a socket file, TCP and TLS a program's input and output come and go."""
    certificate, key = certificates(tmp_path)
    context = None
    if transport == "tls":
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(certificate, key)
    async with forwarded(context) as port:
        url = None if transport == "unix" else f"tcp://localhost:{port}"
        config = TLSConfig(ca_cert=certificate, verify=True) if transport == "tls" else None
        engine = DockerEngine(url, tls=config)

        found = await engine.find(box.name)
        guest = await engine.enter(box.name, box.plan)
        same = Box(engine=engine, plan=box.plan, guest=guest)
        echoed = await same.run("cat", stdin=b"to and fro" * 100_000)
        await same.leave()
        await engine.close()

    assert found is not None
    assert found.is_running
    assert echoed.stdout == b"to and fro" * 100_000


@pytest.mark.docker
@pytest.mark.parametrize("engine", ["docker"], indirect=True)
@pytest.mark.parametrize("times", [50, pytest.param(1000, marks=[pytest.mark.slow, pytest.mark.timeout(600)])])
async def test_no_opening_loses_what_is_said_at_once(box: Box, times: int) -> None:
    """Programs that print the moment they start are heard whole (report 10)."""
    engine = box.engine
    assert isinstance(engine, DockerEngine)
    gate = asyncio.Semaphore(8)

    async def hear() -> tuple[bytes, bytes, int]:
        async with gate:
            program = await engine.open(box.name, ("sh", "-c", "echo out; echo err >&2; exit 3"), env={})
            out, err = await all_of(program)
            return out, err, await program.exit_code()

    heard = await asyncio.gather(*(hear() for _ in range(times)))

    assert set(heard) == {(b"out\n", b"err\n", 3)}
