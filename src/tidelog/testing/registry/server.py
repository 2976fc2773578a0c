"""The registry over HTTP, on a free port, in threads of this process.

    with SchemaRegistryServer() as registry:
        client = SchemaRegistryClient({"url": registry.url})

Requests are answered one at a time. What a test wants to go wrong is asked for: `fail_next`, `require`.
"""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Final, Self
from urllib.parse import parse_qsl, urlsplit

from tidelog.testing.registry.routes import answer
from tidelog.testing.registry.subjects import Refusal, Subjects

_CONTENT_TYPE: Final = "application/vnd.schemaregistry.v1+json"
_BODY_BYTES_MAX: Final = 8 << 20
_POLL_SECONDS: Final = 0.01


class SchemaRegistryServer:
    """A registry, alive between `start` and `stop`, or inside `with`. A registry that is stopped forgets everything."""

    def __init__(self, *, compatibility: str = "BACKWARD", port: int = 0) -> None:
        """`compatibility` is that of subjects without their own; `port` 0 takes a free one."""
        try:
            import avro.compatibility  # noqa: F401 -- every Avro schema is parsed with it
        except ModuleNotFoundError as error:
            raise ModuleNotFoundError("the schema registry needs avro: pip install 'tidelog[registry]'") from error
        self._compatibility = compatibility
        self._port = port
        self._server: ThreadingHTTPServer | None = None
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()
        self._subjects = _subjects_of(compatibility)
        self._failures_due = (0, 0)
        self._credentials: str | None = None
        self.requests: list[str] = []
        """Method and path of every request, in order."""

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def start(self) -> Self:
        """Serve on 127.0.0.1."""
        if self._server is not None:
            raise RuntimeError("this registry runs already")
        self._server = ThreadingHTTPServer(("127.0.0.1", self._port), _handler_of(self))
        self._server.daemon_threads = True
        self._port = self._server.server_address[1]
        self._thread = threading.Thread(target=self._server.serve_forever, args=(_POLL_SECONDS,), daemon=True)
        self._thread.start()
        return self

    def stop(self) -> None:
        """Close the port and forget the schemas. Does nothing when it does not run."""
        server, self._server = self._server, None
        if server is None:
            return
        assert self._thread is not None
        server.shutdown()
        server.server_close()
        self._thread.join()
        self._subjects = _subjects_of(self._compatibility)

    @property
    def url(self) -> str:
        """`http://127.0.0.1:port`, as `schema.registry.url` takes it."""
        if not self._port:
            raise RuntimeError("this registry was not started yet, so it has no address")
        return f"http://127.0.0.1:{self._port}"

    @property
    def subjects(self) -> list[str]:
        """The subjects there are, sorted."""
        with self._lock:
            return self._subjects.names()

    def fail_next(self, count: int, status: int = 503) -> None:
        """Answer the next requests with an error of HTTP."""
        self._failures_due = (count, status)

    def require(self, credentials: str) -> None:
        """Refuse requests without this `Authorization` header."""
        self._credentials = credentials

    def respond(self, method: str, target: str, authorization: str | None, data: bytes) -> tuple[int, Any]:
        """Status and body of the answer to one request."""
        parts = urlsplit(target)
        with self._lock:
            self.requests.append(f"{method} {parts.path}")
            count, status = self._failures_due
            if count:
                self._failures_due = (count - 1, status)
                return status, {"error_code": status * 100 + 1, "message": "a failure that the test asked for"}
            if self._credentials is not None and authorization != self._credentials:
                return 401, {"error_code": 401, "message": "Unauthorized"}
            try:
                body = json.loads(data) if data else None
                return 200, answer(self._subjects, method, parts.path or "/", dict(parse_qsl(parts.query)), body)
            except ValueError as error:
                return 400, {"error_code": 400, "message": f"the body is not JSON: {error}"}
            except Refusal as refusal:
                return refusal.status, {"error_code": refusal.code, "message": refusal.message}


def _subjects_of(compatibility: str) -> Subjects:
    try:
        return Subjects(compatibility)
    except Refusal as refusal:
        raise ValueError(refusal.message) from None


def _handler_of(registry: SchemaRegistryServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_: object) -> None:
            """Requests are in `registry.requests`."""

        def respond(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            if length > _BODY_BYTES_MAX:
                self.close_connection = True
                self.reply(413, {"error_code": 413, "message": f"the body has more than {_BODY_BYTES_MAX} bytes"})
                return
            data = self.rfile.read(length)
            self.reply(*registry.respond(self.command, self.path, self.headers.get("Authorization"), data))

        def reply(self, status: int, body: Any) -> None:
            data = (body if isinstance(body, str) else json.dumps(body)).encode()
            self.send_response(status)
            self.send_header("Content-Type", _CONTENT_TYPE)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        do_GET = do_POST = do_PUT = do_DELETE = respond  # noqa: N815 -- the names of http.server

    return Handler
