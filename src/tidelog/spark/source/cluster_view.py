"""What the driver asks a cluster: which partitions there are, and their first and last offsets.

One per reader, with one connection to each broker, kept between micro-batches. Questions are repeated while leaders
move or brokers restart, for `default.api.timeout.ms`; a cluster that never answered is given up sooner, because then it
is most often the address that is wrong.
"""

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final, Protocol, TypeVar

from tidelog.client.cluster import ClusterClient, Node
from tidelog.client.errors import BrokerUnavailable
from tidelog.client.patience import Patience
from tidelog.client.refusals import raise_if_refused
from tidelog.client.types import TopicPartition
from tidelog.spark.source.client_settings import ClientSettings
from tidelog.spark.source.offsets import EARLIEST, LATEST, Offsets
from tidelog.spark.source.settings import SourceSettings
from tidelog.wire.errors import ApiError, ErrorCode
from tidelog.wire.messages import ListOffsetsRequest, ListOffsetsResponse
from tidelog.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsTopic
from tidelog.wire.primitives import NO_UUID

Result = TypeVar("Result")

_FIRST_CONTACT_S: Final = 10.0
_LOOKS: Final = 10
_LOOK_FIRST_S: Final = 0.25
_LOOK_MOST_S: Final = 2.0
_GONE: Final = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID)


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic as the cluster describes it."""

    topic_id: bytes
    is_internal: bool
    partitions: tuple[int, ...]


class View(Protocol):
    """What the readers need to know of a cluster; tests have one without a cluster."""

    def partitions(self, known: Iterable[TopicPartition] = ()) -> list[TopicPartition]:
        """The partitions to read now. Those `known` count as gone only when the cluster has said so several times."""

    def missing(self) -> list[str]:
        """What the options name and the cluster did not have when `partitions` was asked last."""

    def topic_ids(self) -> Mapping[str, bytes]:
        """The ids of the topics, as they were then."""

    def earliest(self, partitions: Iterable[TopicPartition]) -> Offsets:
        """The first offsets; partitions that are gone are left out."""

    def latest(
        self, partitions: Iterable[TopicPartition], known: Mapping[TopicPartition, int] | None = None
    ) -> Offsets:
        """The offsets after the last records that may be read; asked again while they lie before those `known`."""

    def at_times(self, times: Mapping[TopicPartition, int]) -> dict[TopicPartition, int | None]:
        """The first offsets at or after times in milliseconds; None where there is no such record."""


class ClusterView:
    """A `View` of the cluster that the settings name."""

    def __init__(
        self,
        settings: SourceSettings,
        cluster: ClusterClient | None = None,
        *,
        monotonic: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._settings = settings
        self._client_settings: ClientSettings = settings.task.client
        self._monotonic = monotonic
        self._sleep = sleep
        self._cluster = cluster or ClusterClient(
            self._client_settings.bootstrap_servers,
            client_id=self._client_settings.client_id,
            timeout_s=self._client_settings.request_timeout_ms / 1000,
        )
        self._was_reached = False
        self._topics: dict[str, Topic] = {}
        self._topics_until = float("-inf")

    @property
    def cluster(self) -> ClusterClient:
        """For questions of other kinds."""
        return self._cluster

    def close(self) -> None:
        """Close the connections."""
        self._cluster.close()

    def partitions(self, known: Iterable[TopicPartition] = ()) -> list[TopicPartition]:
        if self._monotonic() >= self._topics_until:
            self._topics = self._confirmed_topics(self._expected(known))
            ttl_ms = self._settings.metadata_ttl_ms
            self._topics_until = self._monotonic() + ttl_ms / 1000 if ttl_ms > 0 else float("-inf")
        return self._settings.strategy.choose(self._topics)

    def missing(self) -> list[str]:
        return self._settings.strategy.missing(self._topics)

    def topic_ids(self) -> Mapping[str, bytes]:
        return {name: topic.topic_id for name, topic in self._topics.items()}

    def earliest(self, partitions: Iterable[TopicPartition]) -> Offsets:
        return self._offsets(dict.fromkeys(partitions, EARLIEST))

    def latest(
        self, partitions: Iterable[TopicPartition], known: Mapping[TopicPartition, int] | None = None
    ) -> Offsets:
        times = dict.fromkeys(partitions, LATEST)
        found = self._offsets(times)
        for _ in range(self._settings.offset_retries):
            # A leader that has just been elected may not know yet how far its log is readable.
            if known is None or all(offset >= known.get(each, 0) for each, offset in found.items()):
                break
            self._sleep(self._settings.offset_retry_ms / 1000)
            self._cluster.forget()
            found = self._offsets(times)
        return found

    def at_times(self, times: Mapping[TopicPartition, int]) -> dict[TopicPartition, int | None]:
        return {each: None if offset < 0 else offset for each, offset in self._offsets(times).items()}

    def asking(self, attempt: Callable[[], Result]) -> Result:
        """Repeat `attempt` while the cluster cannot answer. Raises what it said last when time is up."""
        patience_s = self._client_settings.api_timeout_ms / 1000
        if not self._was_reached:
            patience_s = min(patience_s, _FIRST_CONTACT_S)
        patience = Patience(patience_s, monotonic=self._monotonic, sleep=self._sleep)
        while True:
            try:
                answer = attempt()
                self._was_reached = True
                return answer
            except (BrokerUnavailable, ApiError) as error:
                is_passing = isinstance(error, BrokerUnavailable) or error.code.retriable
                if not is_passing or not patience.pause():
                    raise
            self._cluster.forget()

    def _expected(self, known: Iterable[TopicPartition]) -> set[TopicPartition]:
        """What was there before, or is in the checkpoint, and is still named by the options."""
        topics = {name: set(topic.partitions) for name, topic in self._topics.items()}
        for name, partition in known:
            topics.setdefault(name, set()).add(partition)
        named = {name: Topic(NO_UUID, False, tuple(sorted(indexes))) for name, indexes in topics.items()}
        return set(self._settings.strategy.choose(named))

    def _confirmed_topics(self, expected: set[TopicPartition]) -> dict[str, Topic]:
        """The topics. If one of those expected is missing, the cluster is asked again, over some fifteen seconds.

        Brokers that have just started know little. So only answers count that name a controller, and another broker is
        asked each time, if there is one.
        """
        topics, _ = self.asking(self._describe)
        looks, pause_s = 0, _LOOK_FIRST_S
        deadline = self._monotonic() + self._client_settings.api_timeout_ms / 1000
        while not _has_all(topics, expected) and looks < _LOOKS and self._monotonic() < deadline:
            self._sleep(pause_s)
            pause_s = min(2 * pause_s, _LOOK_MOST_S)
            self._cluster.forget()
            topics, has_controller = self.asking(self._describe)
            looks += has_controller
        return topics

    def _describe(self) -> tuple[dict[str, Topic], bool]:
        """The topics as a broker describes them, and whether it knows of a controller."""
        topics: dict[str, Topic] = {}
        answer = self._cluster.metadata(self._settings.strategy.topics)
        for found in answer.topics:
            if found.name is None or found.error_code in _GONE:
                continue
            raise_if_refused(f"topic {found.name!r}", found.error_code)
            indexes = tuple(sorted(each.partition_index for each in found.partitions))
            topics[found.name] = Topic(found.topic_id, found.is_internal, indexes)
        return topics, answer.controller_id >= 0

    def _offsets(self, times: Mapping[TopicPartition, int]) -> Offsets:
        """Asks all leaders, and again those whose partitions were refused, so that one that moves holds up no other.

        What a leader does not know may be new to it; what the cluster's metadata does not have either is gone.
        """
        found: Offsets = {}
        gone: set[TopicPartition] = set()

        def attempt() -> None:
            left = {each: time for each, time in times.items() if each not in found and each not in gone}
            refused: ApiError | None = None
            for node, wanted in self._by_leader(left, gone).items():
                refused = self._ask_leader(node, wanted, found) or refused
            if refused is not None:
                raise refused

        self.asking(attempt)
        return found

    def _by_leader(
        self, times: Mapping[TopicPartition, int], gone: set[TopicPartition]
    ) -> dict[Node, dict[TopicPartition, int]]:
        nodes: dict[Node, dict[TopicPartition, int]] = {}
        for where, time_ms in times.items():
            try:
                node = self._cluster.leader_of(*where)
            except ApiError as error:
                if error.code not in _GONE:
                    raise
                gone.add(where)
            else:
                nodes.setdefault(node, {})[where] = time_ms
        return nodes

    def _ask_leader(self, node: Node, times: Mapping[TopicPartition, int], found: Offsets) -> ApiError | None:
        """Adds to `found`; returns the last refusal."""
        refused: ApiError | None = None
        for topic in self._cluster.on_node(node, self._request(times), ListOffsetsResponse).topics:
            for told in topic.partitions:
                where = TopicPartition(topic.name, told.partition_index)
                try:
                    raise_if_refused(str(where), told.error_code)
                except ApiError as error:
                    refused = error
                else:
                    found[where] = told.offset
        return refused

    def _request(self, times: Mapping[TopicPartition, int]) -> ListOffsetsRequest:
        topics: dict[str, ListOffsetsTopic] = {}
        for (name, index), time_ms in times.items():
            topic = topics.setdefault(name, ListOffsetsTopic(name=name, partitions=[]))
            topic.partitions.append(ListOffsetsPartition(partition_index=index, timestamp=time_ms))
        return ListOffsetsRequest(
            replica_id=-1, isolation_level=int(self._client_settings.read_committed), topics=list(topics.values())
        )


def _has_all(topics: Mapping[str, Topic], expected: Iterable[TopicPartition]) -> bool:
    return all(name in topics and partition in topics[name].partitions for name, partition in expected)
