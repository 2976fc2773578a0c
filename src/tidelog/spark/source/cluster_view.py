"""The driver's requests to a cluster: partitions, and their first and last offsets.

One per reader, connected at the first question and kept between micro-batches. The client repeats questions while
leaders move or brokers restart, for `default.api.timeout.ms`; a cluster that never answered is given up sooner, because
then it is most often the address that is wrong.
"""

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final, Protocol

from tidelog.client.aio.admin.driver import PartlyRefused
from tidelog.client.cluster import Cluster
from tidelog.client.errors import ApiError
from tidelog.client.types import TopicPartition
from tidelog.spark.clients import connect
from tidelog.spark.source.client_settings import ClientSettings
from tidelog.spark.source.offsets import EARLIEST, LATEST, Offsets
from tidelog.spark.source.settings import SourceSettings
from tidelog.wire.errors import ErrorCode
from tidelog.wire.primitives import NO_UUID

_FIRST_CONTACT_MS: Final = 10_000
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
        """The partitions to read now. `known` ones count as deleted only after several responses without them."""

    def missing(self) -> list[str]:
        """Names in the options that the cluster did not have at the last call of `partitions`."""

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
        cluster: Cluster | None = None,
        *,
        monotonic: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._settings = settings
        self._client_settings: ClientSettings = settings.task.client
        self._monotonic = monotonic
        self._sleep = sleep
        self._cluster = cluster
        self._topics: dict[str, Topic] = {}
        self._topics_until = float("-inf")

    @property
    def cluster(self) -> Cluster:
        """The cluster, reached now if it was not yet: also for questions of other kinds."""
        if self._cluster is None:
            client = self._client_settings
            self._cluster = connect(
                client.bootstrap_servers,
                client_id=client.client_id,
                request_timeout_ms=client.request_timeout_ms,
                api_timeout_ms=client.api_timeout_ms,
                first_contact_ms=min(client.api_timeout_ms, _FIRST_CONTACT_MS),
                security=client.security,
            )
        return self._cluster

    def close(self) -> None:
        """Close the connections."""
        if self._cluster is not None:
            self._cluster.close()
            self._cluster = None

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
            self.cluster.forget()
            found = self._offsets(times)
        return found

    def at_times(self, times: Mapping[TopicPartition, int]) -> dict[TopicPartition, int | None]:
        return {each: None if offset < 0 else offset for each, offset in self._offsets(times).items()}

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
        topics, _ = self._describe()
        looks, pause_s = 0, _LOOK_FIRST_S
        deadline = self._monotonic() + self._client_settings.api_timeout_ms / 1000
        while not _has_all(topics, expected) and looks < _LOOKS and self._monotonic() < deadline:
            self._sleep(pause_s)
            pause_s = min(2 * pause_s, _LOOK_MOST_S)
            topics, has_controller = self._describe()
            looks += has_controller
        return topics

    def _describe(self) -> tuple[dict[str, Topic], bool]:
        """The topics as a broker describes them, and whether it knows of a controller."""
        seen = self.cluster.look_at_topics(self._settings.strategy.topics)
        topics = {
            name: Topic(found.topic_id, found.is_internal, tuple(each.partition for each in found.partitions))
            for name, found in seen.topics.items()
        }
        return topics, seen.has_controller

    def _offsets(self, times: Mapping[TopicPartition, int]) -> Offsets:
        """The offsets of the partitions that exist.

        A partition unknown to its leader may be new there; if it is missing in the metadata too, it was deleted.
        """
        found: Offsets = {}
        left = dict(times)
        deadline = self._monotonic() + self._client_settings.api_timeout_ms / 1000
        while left:
            answers, unknown = self._ask(left)
            found |= answers
            there = self._there(unknown) if unknown else set()
            left = {where: left[where] for where in there}
            if left and self._monotonic() >= deadline:
                raise unknown[min(left)]
        return found

    def _ask(self, times: Mapping[TopicPartition, int]) -> tuple[Offsets, dict[TopicPartition, ApiError]]:
        """The returned offsets, and the partitions that brokers do not know. Raises other errors."""
        errors: dict[TopicPartition, ApiError] = {}
        try:
            found = self.cluster.list_offsets(times, read_committed=self._client_settings.read_committed)
        except PartlyRefused as refused:
            found, errors = refused.results, refused.errors
        except ApiError as refused:
            found, errors = {}, dict.fromkeys(times, refused)
        for error in errors.values():
            if error.code not in _GONE:
                raise error
        return {where: each.offset for where, each in found.items()}, errors

    def _there(self, partitions: Iterable[TopicPartition]) -> set[TopicPartition]:
        """Those of these partitions that the cluster's metadata has."""
        wanted = set(partitions)
        seen = self.cluster.look_at_topics(sorted({where.topic for where in wanted})).topics
        return {each for each in wanted if each.topic in seen and each.partition < len(seen[each.topic].partitions)}


def _has_all(topics: Mapping[str, Topic], expected: Iterable[TopicPartition]) -> bool:
    return all(name in topics and partition in topics[name].partitions for name, partition in expected)
