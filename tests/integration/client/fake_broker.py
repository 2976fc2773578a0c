"""A broker that a test scripts, for the asyncio core: real sockets on the loopback, answers from a table.

`answers` maps an API to a function from the decoded request to its reply; None leaves the request unanswered and
`CLOSE` drops the connection. ApiVersions and Metadata are answered by themselves unless scripted.
"""

import asyncio
import struct
from collections.abc import Callable
from typing import Any, Final, Self

from tidelog.wire import messages
from tidelog.wire.api_keys import ApiKey
from tidelog.wire.frames import encode_response, parse_request_header
from tidelog.wire.messages.api_versions import ApiVersion, ApiVersionsResponse
from tidelog.wire.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

CLOSE: Final = object()
HOST = "127.0.0.1"

Answer = Callable[[Any], Any]


def request_class(api_key: int) -> Any:
    name = "".join(word.capitalize() for word in ApiKey(api_key).name.split("_"))
    return getattr(messages, f"{name}Request")


class FakeBroker:
    """One broker. Use as `async with FakeBroker() as broker`."""

    def __init__(self, node_id: int = 1, port: int = 0) -> None:
        self.node_id = node_id
        self.port = port
        self.answers: dict[int, Answer] = {}
        self.topics: dict[str, int] = {}
        """Topics and their numbers of partitions, for Metadata."""
        self.peers: list[FakeBroker] = [self]
        self.requests: list[Any] = []
        self.versions: dict[int, tuple[int, int]] = {}
        self.connection_count = 0
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._serve, HOST, self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        """Close the port and every connection."""
        if self._server is not None:
            self._server.close()
            self.drop_connections()
            await self._server.wait_closed()
            self._server = None
            await asyncio.sleep(0)

    def drop_connections(self) -> None:
        for writer in list(self._writers):
            writer.transport.abort()

    @property
    def address(self) -> str:
        return f"{HOST}:{self.port}"

    def asked(self, api_key: int) -> list[Any]:
        """The requests of one API, in order."""
        return [request for request in self.requests if request.api_key == api_key]

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connection_count += 1
        self._writers.add(writer)
        try:
            while True:
                (length,) = struct.unpack(">i", await reader.readexactly(4))
                frame = await reader.readexactly(length)
                header = parse_request_header(frame)
                request = request_class(header.api_key).decode(frame, header.api_version, header.body_offset)
                self.requests.append(request)
                reply = self._answer(request)
                if reply is CLOSE:
                    return
                if reply is not None:
                    body = reply.encode(header.api_version)
                    writer.write(encode_response(header.api_key, header.api_version, header.correlation_id, body))
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            self._writers.discard(writer)
            writer.transport.abort()

    def _answer(self, request: Any) -> Any:
        scripted = self.answers.get(request.api_key)
        if scripted is not None:
            return scripted(request)
        if request.api_key == ApiKey.API_VERSIONS:
            return self.api_versions()
        if request.api_key == ApiKey.METADATA:
            return self.metadata(request)
        return None

    def api_versions(self) -> ApiVersionsResponse:
        served: dict[int, tuple[int, int]] = {
            int(key): request_class(key).versions for key in ApiKey if hasattr(messages, request_class_name(key))
        }
        served.update(self.versions)
        return ApiVersionsResponse(
            api_keys=[ApiVersion(api_key=key, min_version=low, max_version=high) for key, (low, high) in served.items()]
        )

    def metadata(self, request: Any) -> MetadataResponse:
        wanted = list(self.topics) if request.topics is None else [topic.name for topic in request.topics]
        return MetadataResponse(
            cluster_id="fake",
            controller_id=self.node_id,
            brokers=[MetadataResponseBroker(node_id=peer.node_id, host=HOST, port=peer.port) for peer in self.peers],
            topics=[
                MetadataResponseTopic(
                    name=name,
                    error_code=0 if name in self.topics else 3,
                    partitions=[
                        MetadataResponsePartition(partition_index=index, leader_id=self.node_id, leader_epoch=0)
                        for index in range(self.topics.get(name, 0))
                    ],
                )
                for name in wanted
            ],
        )


def request_class_name(api_key: int) -> str:
    return "".join(word.capitalize() for word in ApiKey(api_key).name.split("_")) + "Request"
