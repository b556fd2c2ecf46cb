"""The page: the shares of one bill, for whoever opens it."""

import sys
from http.server import BaseHTTPRequestHandler, HTTPServer

from tabulate import tabulate

from bills.money import euros
from bills.split import shares

BILL = 10_000
FRIENDS = ["Ada", "Grace", "Linus"]


class Page(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        rows = [(name, euros(part)) for name, part in zip(FRIENDS, shares(BILL, len(FRIENDS)), strict=True)]
        body = tabulate([*rows, ("together", euros(BILL))], tablefmt="plain").encode() + b"\n"
        self.send_response(200)
        self.send_header("Content-Type", "text/plain; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


if __name__ == "__main__":
    port = int(sys.argv[1]) if len(sys.argv) > 1 else 8000
    print(f"listening on port {port}", flush=True)
    HTTPServer(("127.0.0.1", port), Page).serve_forever()
