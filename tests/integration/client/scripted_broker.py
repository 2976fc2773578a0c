"""A broker that answers by script: each API has a function from request to response. For tests of the client alone."""

import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Self

from tidelog.wire.errors import ErrorCode
from tidelog.wire.frames import encode_response, parse_request_header
from tidelog.wire.messages import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    CreatePartitionsRequest,
    CreateTopicsRequest,
    DeleteRecordsRequest,
    DeleteTopicsRequest,
    DescribeConfigsRequest,
    FetchRequest,
    IncrementalAlterConfigsRequest,
    ListOffsetsRequest,
    MetadataRequest,
    MetadataResponse,
    ProduceRequest,
)
from tidelog.wire.messages.api_versions import ApiVersion
from tidelog.wire.messages.metadata import (
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from tidelog.wire.schema import Message

REQUESTS: dict[int, type[Message]] = {
    request.api_key: request
    for request in (
        ApiVersionsRequest,
        CreatePartitionsRequest,
        CreateTopicsRequest,
        DeleteRecordsRequest,
        DeleteTopicsRequest,
        DescribeConfigsRequest,
        FetchRequest,
        IncrementalAlterConfigsRequest,
        ListOffsetsRequest,
        MetadataRequest,
        ProduceRequest,
    )
}

Script = Callable[[Any], Message | None]


class ScriptedBroker:
    """Listens on a free port. A script returns the response, or None to hang up; `seen` collects the requests."""

    def __init__(self, scripts: Mapping[type[Message], Script], served: Mapping[int, tuple[int, int]] | None = None):
        self.scripts = dict(scripts)
        self.served = served if served is not None else {key: cls.versions for key, cls in REQUESTS.items()}
        self.seen: list[tuple[int, Message]] = []
        self.connections = 0
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.host, self.port = self._listener.getsockname()
        self._open: list[socket.socket] = []
        self._thread = threading.Thread(target=self._accept, daemon=True)

    @property
    def address(self) -> str:
        return f"{self.host}:{self.port}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for connection in self._open:
            connection.close()
        self._thread.join(5)

    def requests(self, kind: type[Message]) -> list[Any]:
        return [request for _, request in self.seen if isinstance(request, kind)]

    def metadata(self, topic: str, partitions: int, error: ErrorCode = ErrorCode.NONE) -> MetadataResponse:
        """An answer that makes this broker the leader of everything."""
        return MetadataResponse(
            brokers=[MetadataResponseBroker(node_id=7, host=self.host, port=self.port)],
            controller_id=7,
            topics=[
                MetadataResponseTopic(
                    error_code=error,
                    name=topic,
                    partitions=[
                        MetadataResponsePartition(partition_index=index, leader_id=7) for index in range(partitions)
                    ],
                )
            ],
        )

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self.connections += 1
            self._open.append(connection)
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with connection, connection.makefile("rb") as stream:
            for frame in frames(stream):
                header = parse_request_header(frame)
                request = REQUESTS[header.api_key].decode(frame, header.api_version, header.body_offset)
                self.seen.append((header.api_version, request))
                answer = self._answer(request)
                if answer is None:
                    return
                body = answer.encode(header.api_version)
                connection.sendall(encode_response(header.api_key, header.api_version, header.correlation_id, body))

    def _answer(self, request: Message) -> Message | None:
        script = self.scripts.get(type(request))
        if script is not None:
            return script(request)
        assert isinstance(request, ApiVersionsRequest), f"nothing is scripted for {request}"
        keys = [ApiVersion(api_key=key, min_version=low, max_version=high) for key, (low, high) in self.served.items()]
        return ApiVersionsResponse(api_keys=keys)


def frames(stream: Any) -> Iterator[bytes]:
    """The frames of a stream, without their lengths, until it ends."""
    try:
        while len(head := stream.read(4)) == 4:
            yield stream.read(int.from_bytes(head, "big"))
    except OSError:
        return


@contextmanager
def raw_server(answer: Callable[[socket.socket], None]) -> Iterator[tuple[str, int]]:
    """A server that treats one connection as `answer` says: for peers that are no broker."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        try:
            connection, _ = listener.accept()
        except OSError:
            return
        with connection:
            answer(connection)

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield listener.getsockname()
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join(5)
