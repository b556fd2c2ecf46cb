"""A Docker engine of a few lines, on the loopback interface, for answers that a real one gives seldom."""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

#: What a healthy engine says of itself.
VERSION = {"ApiVersion": "1.41", "MinAPIVersion": "1.24", "Version": "20.10", "Os": "linux", "Arch": "amd64"}
INFO = {
    "NCPU": 2,
    "MemoryLimit": True,
    "PidsLimit": True,
    "CpuCfsQuota": True,
    "SecurityOptions": ["name=seccomp,profile=default"],
}


class Stub:
    """What the engine answers, by method and path without the version.

    Attributes:
        url: Where it listens.
        answers: Status and body, where a list is lines of a stream; or a function that returns them.
        asked: The requests so far.
    """

    def __init__(self, answers: Mapping[str, Any]) -> None:
        self.url = ""
        self.answers: dict[str, Any] = {"GET /version": (200, VERSION), "GET /info": (200, INFO), **answers}
        self.asked: list[str] = []

    def find(self, method: str, path: str) -> tuple[int, Any]:
        """Return the answer to a request, and note it."""
        plain = path.partition("?")[0]
        if plain.startswith("/v1."):
            plain = "/" + plain.split("/", 2)[2]
        self.asked.append(f"{method} {plain}")
        answer: Any = self.answers.get(f"{method} {plain}", (404, {"message": f"no such thing: {plain}"}))
        found: tuple[int, Any] = answer(self) if callable(answer) else answer
        return found


@contextlib.contextmanager
def docker_stub(answers: Mapping[str, Any]) -> Iterator[Stub]:
    """Give an engine that answers so."""
    stub = Stub(answers)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            status, body = stub.find(self.command, self.path)
            pieces = [json.dumps(line).encode() + b"\r\n" for line in (body if isinstance(body, list) else [body])]
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            for piece in pieces:
                self.wfile.write(b"%x\r\n%b\r\n" % (len(piece), piece))
            self.wfile.write(b"0\r\n\r\n")

        do_POST = do_GET

        def log_message(self, *arguments: Any) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    stub.url = f"tcp://127.0.0.1:{server.server_address[1]}"
    try:
        yield stub
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
