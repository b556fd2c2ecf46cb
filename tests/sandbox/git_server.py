"""A git server over HTTP for tests: real git behind it, a password in front of it."""

from __future__ import annotations

import base64
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path


@dataclass(slots=True)
class GitServer:
    """A running one.

    Attributes:
        port: Where it listens, on the loopback interface.
        seen: The ``Authorization`` of each request, decoded.
    """

    port: int = 0
    seen: list[str] = field(default_factory=list)


@contextmanager
def git_server(root: Path, *, password: str | None = None, redirect_to: str | None = None) -> Iterator[GitServer]:
    """Serve the repositories below a directory.

    Args:
        root: Where they are.
        password: Asked for, with any user's name; None means nobody is asked.
        redirect_to: Send everybody there instead.
    """
    server = GitServer()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            given = self.headers.get("Authorization", "").removeprefix("Basic ")
            server.seen.append(base64.b64decode(given).decode())
            if redirect_to is not None:
                self.send_response(302)
                self.send_header("Location", redirect_to + self.path)
                self.end_headers()
            elif password is not None and server.seen[-1].partition(":")[2] != password:
                self.send_response(401)
                self.send_header("WWW-Authenticate", 'Basic realm="test"')
                self.end_headers()
            else:
                self._answer()

        do_POST = do_GET

        def _answer(self) -> None:
            path, _, query = self.path.partition("?")
            variables = {
                "GIT_PROJECT_ROOT": str(root),
                "GIT_HTTP_EXPORT_ALL": "1",
                "PATH_INFO": path,
                "QUERY_STRING": query,
                "REQUEST_METHOD": self.command,
                "CONTENT_TYPE": self.headers.get("Content-Type", ""),
                "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding", ""),
                "HTTP_GIT_PROTOCOL": self.headers.get("Git-Protocol", ""),
                "REMOTE_USER": "somebody",
                "PATH": "/usr/bin:/bin",
            }
            body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
            answer = subprocess.run(
                ["git", "http-backend"], env=variables, input=body, capture_output=True, check=True
            ).stdout
            head, _, content = answer.partition(b"\r\n\r\n")
            lines = dict(line.split(": ", 1) for line in head.decode().split("\r\n"))
            self.send_response(int(lines.pop("Status", "200").split()[0]))
            for name, value in lines.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, format: str, *args: object) -> None:
            pass

    listener = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.port = listener.server_port
    thread = threading.Thread(target=listener.serve_forever)
    thread.start()
    try:
        yield server
    finally:
        listener.shutdown()
        thread.join()
        listener.server_close()
