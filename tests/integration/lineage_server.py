"""A small lineage service: takes OpenLineage events over HTTP, as Marquez does, and keeps them."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any


class LineageServer:
    """The events that have come, in order."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.events: list[dict[str, Any]] = []

    def types(self, job: str) -> list[str]:
        """The event types of a job, in order, a row of equal ones as one."""
        found: list[str] = []
        for event in list(self.events):
            if event["job"]["name"] == job and found[-1:] != [event["eventType"]]:
                found.append(event["eventType"])
        return found


@contextmanager
def lineage_server() -> Iterator[LineageServer]:
    """A service on a free port."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            is_right = self.path == "/api/v1/lineage" and self.headers["Content-Type"] == "application/json"
            if is_right:
                taken.events.append(json.loads(body))
            self.send_response(201 if is_right else 404)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Not on stderr."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    taken = LineageServer(f"http://127.0.0.1:{server.server_port}")
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield taken
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
