"""A broker that is alone: its own tree is the metadata, it decides, and a change is made where it is asked for."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from tidelog.broker.configuration.settings import registration_of
from tidelog.broker.topology.metadata_waiters import ELECT_LEADER, TOPIC
from tidelog.broker.topology.own_topics import OwnTopics
from tidelog.broker.topology.topic_planning import TopicPlanner
from tidelog.broker.topology.topology import ControllerFigures, QuorumFeature
from tidelog.metadata.adoption import AdoptionState, read_adoption
from tidelog.metadata.image import BrokerImage, ClusterImage, PartitionImage
from tidelog.metadata.producer_ids import ProducerIdAllocator, take_block
from tidelog.metadata.registration import elect_controller, register_broker
from tidelog.records.scanner import HAS_SPEEDUPS
from tidelog.wire.errors import ApiError, ErrorCode
from tidelog.wire.partitions import NO_EPOCH

if TYPE_CHECKING:
    from tidelog.broker.configuration.current import CurrentSettings
    from tidelog.broker.topology.topology import BrokerParts
    from tidelog.config import BrokerConfig
    from tidelog.controller.events import ElectionType, Targets
    from tidelog.coordination import ProducerEpoch
    from tidelog.metadata.store import Store
    from tidelog.metadata.tree import BrokerRegistration, ProducerIdBlock, ReplicaAssignment
    from tidelog.network.session import Session
    from tidelog.replication.fetcher import Fetcher
    from tidelog.transactions import MarkerOrder
    from tidelog.wire.api_keys import ApiKey
    from tidelog.wire.partitions import PartitionKey, TopicPartition
    from tidelog.wire.schema import Message

logger = logging.getLogger(__name__)

_NO_CANDIDATE: Final = (ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE, ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE)
"""By `ElectionType`: the error where no replica that may be elected is alive."""


class Alone:
    """A topology without other brokers. What is asked of other brokers has been done, or cannot be."""

    def __init__(self, parts: BrokerParts) -> None:
        self._parts = parts
        base = parts.base
        self._slices = base.slices
        self._image = parts.image
        planner = TopicPlanner(parts.settings, parts.image, parts.metadata, base.background, base.surroundings.random)
        self.topics = OwnTopics(parts, planner)
        self.producer_ids = ProducerIdAllocator(self._take_producer_ids)

    async def _take_producer_ids(self) -> ProducerIdBlock:
        return await self._parts.metadata.run(take_block, self._parts.broker_id)

    @property
    def final_epoch(self) -> int:
        """No registration names the one before."""
        return NO_EPOCH

    @property
    def is_controller(self) -> bool:
        return True

    # --- start and stop ---

    def open(self, store: Store, *, is_unclean: bool) -> None:
        """Register, compare the logs with the metadata and open the partitions; coordinators load what they lead."""
        parts = self._parts
        registration = self._registration()
        broker_epoch = register_broker(store, registration)
        controller = elect_controller(store, parts.broker_id, parts.base.clock.wall_ms())
        parts.image.set_broker(BrokerImage.of(registration, broker_epoch))
        parts.image.set_controller(controller.broker_id, controller.epoch)
        self._adopt(store)
        self.topics.open_all(store, is_unclean=is_unclean)
        parts.log_dir_moves.resume()

    def _registration(self) -> BrokerRegistration:
        parts = self._parts
        return registration_of(
            parts.settings.config, parts.broker_id, parts.network.ports(), parts.base.clock.wall_ms()
        )

    def _adopt(self, store: Store) -> None:
        """Compare logs and metadata, unless there are neither: a first start need not load what that takes."""
        parts = self._parts
        log_manager, image = parts.base.log_manager, parts.image
        if log_manager.all_logs() or any(image.topics()) or read_adoption(store) != AdoptionState():
            from tidelog.broker.topology.adoption import Adoption

            Adoption(parts.broker_id, parts.settings.config, image, log_manager, parts.topics, store).run()

    def on_new_session(self, look: Callable[[], None]) -> None:
        """The session with a tree of this broker's own does not end."""

    async def join(self) -> None:
        """There is no broker to join."""

    def serve(self, _store: Store, address: str) -> None:
        """Only the log says so."""
        parts = self._parts
        logger.info(
            "broker %d of cluster %s serves %d partitions on %s",
            parts.broker_id,
            self._image.cluster_id,
            len(parts.replica_manager),
            address,
        )
        logger.debug("records are checked in %s", "C" if HAS_SPEEDUPS else "Python: the C module was not built")

    async def wait_until_known(self, _timeout_ms: int) -> bool:
        """This broker is its own controller."""
        return True

    async def hand_over(self) -> None:
        """No other broker can lead."""

    async def close(self) -> None:
        """Nothing runs."""

    async def leave(self, _seconds: float) -> None:
        """No other broker waits for the end of the session."""

    # --- changes that this broker makes or asks for ---

    async def register(self) -> None:
        """Advertise other addresses, from the next Metadata response on."""
        registration = self._registration()
        broker_epoch = await self._parts.metadata.run(register_broker, registration)
        self._image.set_broker(BrokerImage.of(registration, broker_epoch))

    def follow_settings(self, config: BrokerConfig) -> None:
        """Nothing here depends on a setting that changes."""

    def allow_unclean_elections(self, topic: str) -> None:
        """There are no elections."""

    def report_offline(self, keys: Collection[PartitionKey]) -> None:
        """Show it in the image: no other replica can take over."""
        self.topics.show_offline(keys)

    # --- what clients and brokers ask for ---

    async def elect_leaders(
        self, partitions: Sequence[TopicPartition], election_type: ElectionType, _deadline_ms: int
    ) -> Mapping[TopicPartition, ApiError | None]:
        """No other replica can lead: a partition has its leader, or no replica that may be elected is alive."""
        no_candidate = _NO_CANDIDATE[election_type]
        outcomes: dict[TopicPartition, ApiError | None] = {}
        for asked in partitions:
            partition = self._image.partition(*asked)
            if partition is None:
                code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            else:
                code = ErrorCode.ELECTION_NOT_NEEDED if partition.leader_id >= 0 else no_candidate
            outcomes[asked] = ApiError(code)
            await self._slices.pause()
        return outcomes

    async def alter_reassignments(self, targets: Targets) -> Mapping[TopicPartition, ApiError | None]:
        """An assignment that is in place is confirmed; every other one is refused for what is wrong with it."""
        outcomes: dict[TopicPartition, ApiError | None] = {}
        for asked, target in targets.items():
            outcomes[asked] = self._objection(target, self._image.partition(*asked))
            await self._slices.pause()
        return outcomes

    def _objection(self, target: Sequence[int] | None, partition: PartitionImage | None) -> ApiError | None:
        """Why replicas are not where they are wanted; None if they are."""
        if target is None:
            return ApiError(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS)
        alive = self._image.broker_ids()
        if not target:
            return _invalid("a partition needs at least one replica")
        if len(set(target)) < len(target):
            return _invalid(f"the replicas {list(target)} name a broker twice")
        if missing := [broker_id for broker_id in target if broker_id not in alive]:
            return _invalid(f"brokers {missing} are not alive; alive are {alive}")
        if partition is None:
            return ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        if tuple(target) != tuple(partition.replicas):
            return ApiError(ErrorCode.UNSUPPORTED_VERSION, "this broker is alone: replicas have nowhere to move to")
        return None

    async def list_reassignments(
        self, _partitions: tuple[TopicPartition, ...] | None
    ) -> Mapping[TopicPartition, ReplicaAssignment]:
        """Never any."""
        return {}

    async def serve_broker(self, request: Message, version: int) -> Message:
        """There is no other broker, and the dispatcher has no route for its requests."""
        raise ApiError(ErrorCode.UNSUPPORTED_VERSION, f"{type(request).__name__} {version} is served in a cluster")

    async def forward(self, request: Message, version: int, _session: Session) -> Message:
        """Requests are carried out here, and the dispatcher forwards none."""
        raise ApiError(ErrorCode.UNSUPPORTED_VERSION, f"{type(request).__name__} {version} is not forwarded")

    # --- transactions that span brokers ---

    def settle_marker(self, _order: MarkerOrder, partition: PartitionKey, report: Callable[[ErrorCode], None]) -> bool:
        """A partition that was deleted has no readers."""
        is_deleted = self._image.partition(*partition) is None
        if is_deleted:
            report(ErrorCode.NONE)
        return is_deleted

    def verify(
        self,
        _broker_id: int,
        _transactional_id: str,
        _producer: ProducerEpoch,
        partitions: Collection[PartitionKey],
        respond: Callable[[dict[PartitionKey, ErrorCode]], None],
        *,
        adds: bool = False,  # noqa: ARG002 - no other broker adds anything
    ) -> None:
        """Another broker that the image names is gone."""
        respond(dict.fromkeys(partitions, ErrorCode.COORDINATOR_NOT_AVAILABLE))

    # --- coordinators on other brokers ---

    async def ask(self, broker_id: int, _request: Message) -> Message:
        """There is no other broker."""
        raise ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE, f"there is no broker {broker_id}")

    def quorum_features(self) -> Mapping[str, QuorumFeature]:
        """None: there is no quorum."""
        return {}

    # --- figures ---

    def controller_figures(self) -> ControllerFigures:
        """A broker without a cluster is its own controller."""
        image = self._image
        topics = list(image.topics())
        return ControllerFigures(
            is_active=True,
            cluster={
                "activebrokercount": len(image.broker_ids()),
                "globaltopiccount": len(topics),
                "globalpartitioncount": sum(len(topic.partitions) for topic in topics),
                "offlinepartitionscount": sum(each.leader_id < 0 for topic in topics for each in topic.partitions),
            },
        )

    def fetchers(self) -> Iterable[tuple[tuple[int, int], Fetcher]]:
        return ()

    def bytes_fetched(self) -> tuple[int, int]:
        return 0, 0

    def waiting(self) -> Mapping[str, int]:
        return {TOPIC: 0, ELECT_LEADER: 0}


class AlonePlan:
    """The image is what the tree says, and the replica manager has no followers to look after."""

    apis: frozenset[ApiKey] = frozenset()
    forwarded: frozenset[ApiKey] = frozenset()

    def new_image(self, loaded: ClusterImage) -> ClusterImage:
        return loaded

    def view(self, _settings: CurrentSettings, _image: ClusterImage) -> None:
        return None

    def replica_selector(self, _config: BrokerConfig) -> None:
        return None

    def build(self, parts: BrokerParts, _loaded: ClusterImage) -> Alone:
        return Alone(parts)

    async def close(self) -> None:
        """Nothing was opened."""


def _invalid(text: str) -> ApiError:
    return ApiError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, text)
