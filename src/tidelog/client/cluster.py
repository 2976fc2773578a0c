"""A cluster as a client sees it: which brokers there are, who leads what, and a connection to each.

Requests are routed (`on_any`, `on_controller`, `on_leader`) and repeated (`retrying`) while the cluster says that
leadership is on the move, until `timeout_s` has passed. The functions of this room and the commands of the command line
are the callers.
"""

from collections.abc import Callable, Iterable, Sequence
from types import TracebackType
from typing import NamedTuple, Self, TypeVar

from tidelog.client.addresses import parse_bootstrap_servers
from tidelog.client.connection import DEFAULT_CLIENT_ID, DEFAULT_TIMEOUT_S, Answer, Connection
from tidelog.client.errors import ApiError, BrokerUnavailable, ConnectionLost
from tidelog.client.patience import Patience
from tidelog.client.refusals import raise_if_refused
from tidelog.wire.errors import ErrorCode
from tidelog.wire.messages import MetadataRequest, MetadataResponse
from tidelog.wire.messages.metadata import MetadataRequestTopic
from tidelog.wire.schema import Message

Result = TypeVar("Result")

# The cluster's way of saying "ask again, elsewhere or later". Refusals only: nothing was done, so repeating is safe.
_MOVING = frozenset(
    {
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.NOT_CONTROLLER,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.NOT_ENOUGH_REPLICAS,
    }
)


def is_moving(error: ApiError) -> bool:
    """Whether `error` says that leadership is on the move, so that the same request may be sent again."""
    return error.code in _MOVING


class Node(NamedTuple):
    """A broker's address."""

    node_id: int
    host: str
    port: int


class ClusterClient:
    """The cluster behind `bootstrap_servers`. Not safe to share between threads."""

    def __init__(
        self,
        bootstrap_servers: str | Sequence[str],
        *,
        client_id: str = DEFAULT_CLIENT_ID,
        timeout_s: float = DEFAULT_TIMEOUT_S,
    ) -> None:
        self.timeout_s = timeout_s
        self.client_id = client_id
        self._bootstrap = parse_bootstrap_servers(bootstrap_servers)
        self._nodes: dict[int, Node] = {}
        self._controller_id = -1
        self._leaders: dict[str, dict[int, int]] = {}
        self._connections: dict[tuple[str, int], Connection] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close every connection."""
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()

    def metadata(self, topics: Iterable[str] | None = None, *, may_create: bool = False) -> MetadataResponse:
        """What a broker knows of `topics` (None: all), errors of single topics left in the answer for the caller."""
        wanted = None if topics is None else [MetadataRequestTopic(name=name) for name in topics]
        request = MetadataRequest(topics=wanted, allow_auto_topic_creation=may_create)
        answer = self.on_any(request, MetadataResponse)
        self._nodes = {broker.node_id: Node(broker.node_id, broker.host, broker.port) for broker in answer.brokers}
        self._controller_id = answer.controller_id
        for topic in answer.topics:
            if topic.name is not None and topic.error_code == ErrorCode.NONE:
                self._leaders[topic.name] = {part.partition_index: part.leader_id for part in topic.partitions}
        return answer

    def partitions(self, topic: str, *, may_create: bool = False) -> list[int]:
        """The partitions of `topic`, ascending; ApiError if there is no such topic."""
        if topic not in self._leaders:
            self.retrying(lambda: self._learn(topic, may_create))
        return sorted(self._leaders[topic])

    def leader_of(self, topic: str, partition: int) -> Node:
        """The broker that leads a partition; ApiError if nobody does now (which `retrying` waits out)."""
        if topic not in self._leaders:
            self._learn(topic, may_create=False)
        leaders = self._leaders[topic]
        if partition not in leaders:
            raise ApiError(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                f"topic {topic!r} has no partition {partition}: it has {len(leaders)} of them",
            )
        node = self._nodes.get(leaders[partition])
        if node is None:
            raise ApiError(ErrorCode.LEADER_NOT_AVAILABLE, f"partition {topic}-{partition} has no leader now")
        return node

    def by_leader(self, topic: str, partitions: Iterable[int]) -> dict[Node, list[int]]:
        """`partitions` of `topic`, grouped by the broker to ask."""
        groups: dict[Node, list[int]] = {}
        for partition in partitions:
            groups.setdefault(self.leader_of(topic, partition), []).append(partition)
        return groups

    def nodes(self) -> list[Node]:
        """All brokers, by id."""
        if not self._nodes:
            self.metadata([])
        return sorted(self._nodes.values())

    def connection_to(self, node: Node) -> Connection:
        """The open connection to `node`."""
        return self._connect(node.host, node.port)

    def on_any(self, request: Message, answer: type[Answer], *, at_most: int | None = None) -> Answer:
        """Ask whichever broker answers first: those already connected, then the bootstrap servers, then the rest."""
        known = [(node.host, node.port) for node in self._nodes.values()]
        addresses = list(dict.fromkeys([*self._connections, *self._bootstrap, *known]))
        failures: list[BrokerUnavailable] = []
        for host, port in addresses:
            try:
                return self._connect(host, port).send(request, answer, at_most=at_most)
            except BrokerUnavailable as error:
                self._drop(host, port)
                failures.append(error)
        if len(failures) == 1:
            raise failures[0]
        tried = ", ".join(f"{failure.address} ({failure.reason})" for failure in failures)
        raise BrokerUnavailable(tried, "none of these answers", "check bootstrap.servers or --bootstrap-server")

    def on_node(self, node: Node, request: Message, answer: type[Answer], *, at_most: int | None = None) -> Answer:
        """Ask `node`."""
        try:
            return self._connect(node.host, node.port).send(request, answer, at_most=at_most)
        except BrokerUnavailable:
            self._drop(node.host, node.port)
            raise

    def on_controller(self, request: Message, answer: type[Answer]) -> Answer:
        """Ask the controller."""
        if self._controller_id not in self._nodes:
            self.metadata([])
        node = self._nodes.get(self._controller_id)
        if node is None:
            raise ApiError(ErrorCode.NOT_CONTROLLER, "the cluster has no controller now")
        return self.on_node(node, request, answer)

    def retrying(self, attempt: Callable[[], Result], *, even_if_lost: bool = False) -> Result:
        """Repeat `attempt` while leadership moves, until `timeout_s` has passed.

        `even_if_lost` also repeats after a lost connection: for requests that may safely arrive twice.
        """
        patience = Patience(self.timeout_s)
        while True:
            try:
                return attempt()
            except ApiError as error:
                if not is_moving(error) or not patience.pause():
                    raise
            except ConnectionLost:
                if not even_if_lost or not patience.pause():
                    raise
            self.forget()

    def forget(self) -> None:
        """Drop what is known of leaders and the controller, so that the next question asks the cluster again."""
        self._leaders.clear()
        self._controller_id = -1

    def _learn(self, topic: str, may_create: bool) -> None:
        (found,) = self.metadata([topic], may_create=may_create).topics
        raise_if_refused(f"topic {topic!r}", found.error_code)

    def _connect(self, host: str, port: int) -> Connection:
        connection = self._connections.get((host, port))
        if connection is None or not connection.is_open:
            connection = Connection(host, port, self.client_id, self.timeout_s)
            connection.open()
            self._connections[host, port] = connection
        return connection

    def _drop(self, host: str, port: int) -> None:
        connection = self._connections.pop((host, port), None)
        if connection is not None:
            connection.close()
