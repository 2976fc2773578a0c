"""A schema registry for tests, over real HTTP: what serializers ask of one, with Confluent's paths and error codes.

It keeps everything in memory and knows one compatibility rule: `NONE` takes any schema, anything else only a schema
of the same record name. The tests against Apicurio show that serializers work with a registry that others wrote.
"""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote, urlsplit


class _State:
    def __init__(self) -> None:
        self.schemas: list[dict[str, Any]] = []
        self.subjects: dict[str, list[int]] = {}
        self.requests: list[str] = []
        self.failures_due = 0
        self.credentials: str | None = None

    def id_of(self, schema: dict[str, Any]) -> int:
        if schema not in self.schemas:
            self.schemas.append(schema)
        return self.schemas.index(schema) + 1

    def registered(self, subject: str, version: int) -> dict[str, Any]:
        schema_id = self.subjects[subject][version - 1]
        return {"subject": subject, "version": version, "id": schema_id, **self.schemas[schema_id - 1]}


class RegistryServer:
    """The running server, its address and what it was asked."""

    def __init__(self, url: str, state: _State) -> None:
        self.url = url
        self._state = state

    @property
    def requests(self) -> list[str]:
        return self._state.requests

    @property
    def subjects(self) -> dict[str, list[int]]:
        return self._state.subjects

    def fail_next(self, count: int) -> None:
        """Answer the next requests with 503."""
        self._state.failures_due = count

    def require(self, credentials: str) -> None:
        """Refuse requests without this Authorization header."""
        self._state.credentials = credentials


def _handler(state: _State) -> type[BaseHTTPRequestHandler]:  # noqa: C901 - a class in a closure, not one function
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_: object) -> None:
            return

        def answer(self, status: int, body: Any) -> None:
            data = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/vnd.schemaregistry.v1+json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def missing(self, code: int, what: str) -> None:
            self.answer(404, {"error_code": code, "message": f"{what} not found."})

        def serve(self) -> None:
            path = [unquote(part) for part in urlsplit(self.path).path.strip("/").split("/")]
            body = json.loads(self.rfile.read(int(self.headers.get("Content-Length") or 0)) or b"null")
            state.requests.append(f"{self.command} /{'/'.join(path)}")
            if state.failures_due:
                state.failures_due -= 1
                self.answer(503, {"error_code": 50301, "message": "not now"})
            elif state.credentials and self.headers.get("Authorization") != state.credentials:
                self.answer(401, {"error_code": 401, "message": "Unauthorized"})
            else:
                self.route(path, body)

        do_GET = do_POST = do_PUT = serve

        def route(self, path: list[str], body: Any) -> None:
            match [self.command, *path]:
                case ["GET", "subjects"]:
                    self.answer(200, list(state.subjects))
                case ["GET", "schemas", "ids", number]:
                    if not 0 < int(number) <= len(state.schemas):
                        return self.missing(40403, "Schema")
                    self.answer(200, state.schemas[int(number) - 1])
                case ["GET", "subjects", subject, "versions"] if subject in state.subjects:
                    self.answer(200, list(range(1, len(state.subjects[subject]) + 1)))
                case ["GET", "subjects", subject, "versions", version] if subject in state.subjects:
                    count = len(state.subjects[subject])
                    wanted = count if version == "latest" else int(version)
                    if not 0 < wanted <= count:
                        return self.missing(40402, "Version")
                    self.answer(200, state.registered(subject, wanted))
                case ["POST", "subjects", subject, *rest]:
                    self.post(subject, _schema_of(body), is_new=bool(rest))
                case ["PUT", "config", *_]:
                    self.answer(200, body)
                case _:
                    self.missing(40401, "Subject")
            return None

        def post(self, subject: str, schema: dict[str, Any], is_new: bool) -> None:
            if not is_new and schema not in state.schemas:
                return self.missing(40403, "Schema")
            schema_id = state.id_of(schema)
            versions = state.subjects.setdefault(subject, []) if is_new else state.subjects.get(subject, [])
            if schema_id not in versions:
                if not is_new:
                    return self.missing(40403, "Schema")
                versions.append(schema_id)
            return self.answer(200, state.registered(subject, versions.index(schema_id) + 1))

    return Handler


def _schema_of(body: Any) -> dict[str, Any]:
    schema = {"schema": body["schema"], "references": body.get("references") or []}
    if body.get("schemaType", "AVRO") != "AVRO":
        schema["schemaType"] = body["schemaType"]
    return schema


@contextmanager
def registry_server() -> Iterator[RegistryServer]:
    """A registry on a free port, until the block ends."""
    state = _State()
    server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(state))
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield RegistryServer(f"http://127.0.0.1:{server.server_address[1]}", state)
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
