"""The controller of this broker: takes part in elections, and once elected processes one event after the other.

Every broker has one; at any time one of them is active. The epoch in `/controller_epoch` rises with each election and
fences all earlier controllers, in the tree and at the brokers. A controller that finds itself fenced resigns: it
clears its context and waits for the next election.
"""

import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, Final

from tidelog.controller import events
from tidelog.controller.context import ControllerContext, LiveBroker
from tidelog.controller.elections import ElectionCause
from tidelog.controller.environment import ControllerSettings, Environment
from tidelog.controller.events import Event, EventQueue
from tidelog.controller.isr_updates import IsrUpdates
from tidelog.controller.leader_elections import LeaderElections
from tidelog.controller.partition_states import PartitionStateMachine
from tidelog.controller.partitions import Leadership, PartitionReplica
from tidelog.controller.reassignments import Reassignments
from tidelog.controller.replica_states import ReplicaStateMachine
from tidelog.controller.request_batch import ControlPlane, Pause
from tidelog.controller.states import PartitionStatus, ReplicaStatus
from tidelog.controller.topic_deletion import TopicDeletionManager
from tidelog.controller.tree import NO_CONTROLLER, ControllerTree
from tidelog.metadata import paths
from tidelog.metadata.errors import ControllerMovedError, SessionExpiredError, StoreUnavailableError
from tidelog.metadata.store import EventKind, StoreRunner
from tidelog.metadata.tree import TopicAssignment
from tidelog.metadata.uuids import random_uuid
from tidelog.wire.errors import ApiError, ErrorCode
from tidelog.wire.partitions import TopicPartition

logger = logging.getLogger(__name__)

FIRST_BALANCE_SECONDS: Final = 5
"""How long after an election the balance of leaders is first looked at."""
_UNKNOWN_EPOCH: Final = -1


class Controller:
    """One broker's part in controlling the cluster. Call `process` with one event of `events` at a time."""

    def __init__(
        self,
        broker_id: int,
        settings: ControllerSettings,
        store: StoreRunner,
        control_plane: ControlPlane,
        event_queue: EventQueue,
        *,
        pause: Pause,
        wall_ms: Callable[[], int],
        random_bytes: Callable[[int], bytes],
        schedule_balance: Callable[[int], object],
        register: Callable[[], Awaitable[object]],
    ) -> None:
        """`schedule_balance` puts `AutoPreferredReplicaLeaderElection` into the queue in so many seconds, once.

        `register` registers this broker again in a new session.
        """
        self.context = ControllerContext()
        self.events = event_queue
        self.active_id = NO_CONTROLLER
        """The broker that is controller, as far as this one knows."""
        self._is_in_doubt = False
        """The tree could not be reached in the middle of an event: the context may hold what the tree does not."""
        self._wall_ms = wall_ms
        self._random_bytes = random_bytes
        self._schedule_balance = schedule_balance
        self._register = register
        self._tree = ControllerTree(store, self._on_watch)
        environment = Environment(broker_id, settings, self.context, self._tree, control_plane, event_queue, pause)
        self._environment = environment
        self._partitions = PartitionStateMachine(environment)
        self._replicas = ReplicaStateMachine(environment)
        self._deletions = TopicDeletionManager(environment, self._partitions, self._replicas)
        self._reassignments = Reassignments(environment, self._partitions, self._replicas, self._deletions)
        self._isr_updates = IsrUpdates(environment)
        self._elections = LeaderElections(environment, self._partitions)

    @property
    def is_active(self) -> bool:
        return self.active_id == self._environment.broker_id

    @property
    def epoch(self) -> int:
        return self.context.epoch

    @property
    def unclean_elections(self) -> int:
        """Elections of replicas that were not in sync, since this broker started."""
        return self._partitions.unclean_elections

    def update_settings(self, settings: ControllerSettings) -> None:
        """Follow these settings from now on; a change of the default for unclean elections takes effect at once."""
        before, self._environment.settings = self._environment.settings, settings
        if settings.unclean_leader_election_enable and not before.unclean_leader_election_enable:
            self.events.put(events.UncleanLeaderElectionEnable())

    # --- events ---

    async def process(self, event: Event) -> Event | None:
        """React to one event. What goes wrong is logged: the next event must be processed whatever happened.

        If the tree did not answer, returns an event to process after a pause. The session may go on, so that no other
        event says when the tree is back.
        """
        name = type(event).__name__
        try:
            if self._is_in_doubt:
                await self._start_over()
            if type(event) in _ALWAYS or self.is_active:
                await _HANDLERS[type(event)](self, event)
            else:
                event.fail(ErrorCode.NOT_CONTROLLER)
        except ControllerMovedError as moved:
            logger.info("%s ends, as the controller has moved: %s", name, moved)
            event.fail(ErrorCode.NOT_CONTROLLER)
            return await self.process(events.ControllerChange())
        except SessionExpiredError as expired:
            # The event that says so is on its way.
            logger.warning("%s ends, as the session is over: %s", name, expired)
            event.fail(ErrorCode.NOT_CONTROLLER)
        except StoreUnavailableError as error:
            logger.warning("%s ends, as the metadata cannot be reached: %s", name, error)
            self._is_in_doubt |= self.is_active
            event.fail(ErrorCode.NOT_CONTROLLER)
            if type(event) in _REPEATED:
                return event
            if self._is_in_doubt:
                return events.ControllerChange()
        except Exception:
            logger.exception("%s fails", name)
            event.fail(ErrorCode.UNKNOWN_SERVER_ERROR)
        return None

    def _on_watch(self, path: str, kind: EventKind) -> None:
        event = event_of_watch(path, kind)
        if event is not None:
            self.events.put(event)

    # --- election ---

    async def _on_startup(self, _event: events.Startup) -> None:
        await self._elect()

    async def _on_controller_change(self, _event: events.ControllerChange) -> None:
        await self._resign_if_moved()

    async def _on_reelect(self, _event: events.Reelect) -> None:
        await self._resign_if_moved()
        await self._elect()

    async def _on_new_session(self, _event: events.RegisterBrokerAndReelect) -> None:
        await self._register()
        # An election that was under way when the last session ended may have been won in this one. What it read is gone
        # with the resignation that followed, so that the controllership is given up and won again.
        await self._give_up()
        await self._elect()

    async def _on_expire(self, _event: events.Expire) -> None:
        self._is_in_doubt = False
        self.active_id = NO_CONTROLLER
        self._resign()

    async def _on_shutdown(self, _event: events.Shutdown) -> None:
        if self.is_active:
            await self._give_up()
        self.active_id = NO_CONTROLLER

    async def _resign_if_moved(self) -> None:
        was_active = self.is_active
        await self._look()
        if was_active and not self.is_active:
            self._resign()

    async def _elect(self) -> None:
        """Become controller if there is none."""
        await self._look()
        if self.active_id != NO_CONTROLLER:
            return
        broker_id = self._environment.broker_id
        try:
            won = await self._tree.become_controller(broker_id, self._wall_ms())
            self.active_id = broker_id
            self.context.epoch, self.context.epoch_version = won
            self._tree.fence(won.version)
            logger.info("broker %d is controller, with epoch %d", broker_id, won.epoch)
            await self._take_over()
        except ControllerMovedError:
            await self._resign_if_moved()
        except (SessionExpiredError, StoreUnavailableError):
            raise
        except Exception:
            # A controller that has read half of the cluster must not decide; another broker may succeed.
            logger.exception("broker %d failed to become controller and resigns", broker_id)
            await self._give_up()

    async def _start_over(self) -> None:
        """Half an event was carried out. A new controller, this one perhaps, reads everything from the tree."""
        await self._give_up()
        self._is_in_doubt = False

    async def _give_up(self) -> None:
        """Resign and let another broker be elected."""
        if self.is_active:
            self.active_id = NO_CONTROLLER
            self._resign()
        await self._look()

    async def _look(self) -> None:
        """Read who is controller. If it is this broker and has no epoch, it is given up.

        Such a controller has resigned, or was elected and not answered in time: it does not know the cluster.
        """
        found = await self._tree.controller_id()
        if found == self._environment.broker_id and self.context.epoch == 0:
            found = NO_CONTROLLER
            try:
                await self._tree.delete_controller()
            except ControllerMovedError:
                logger.info("the controller has moved already")
        self.active_id = found

    def _resign(self) -> None:
        self._environment.control_plane.close()
        self.context.clear()
        logger.info("broker %d is not controller any more", self._environment.broker_id)

    # --- taking over ---

    async def _take_over(self) -> None:
        """Read the cluster from the tree and go on from wherever the last controller stopped."""
        tree = self._tree
        await tree.ensure_features()
        for notices in (tree.log_dir_events, tree.isr_changes):
            # Every state is about to be read; these calls also set the watches.
            await tree.remove_notices((await notices())[0])
        await self._load()
        requested = await tree.topic_deletions()
        await self._deletions.start(requested, self._ineligible_for_deletion(requested))
        # Brokers need the others' addresses before LeaderAndIsr names their leaders.
        await self._send_metadata(self.context.registered_broker_ids())
        await self._replicas.start()
        await self._partitions.start()
        resumed = await self._reassignments.request_from_tree()
        await self._reassignments.resume(lambda partition, _: partition not in resumed)
        await self._deletions.resume()
        await self._elections.elect_from_tree()
        if self._environment.settings.auto_leader_rebalance_enable:
            self._schedule_balance(FIRST_BALANCE_SECONDS)
        logger.info(
            "the controller of epoch %d has %d brokers, %d topics and %d partitions, %d of them offline",
            self.epoch,
            len(self.context.live_brokers),
            len(self.context.topics),
            len(self.context.partition_states),
            self.context.offline_partition_count(),
        )

    async def _load(self) -> None:
        context = self.context
        context.live_brokers = await self._tree.brokers()
        for _, broker in sorted(context.live_brokers.items()):
            self._environment.control_plane.add_broker(broker)
        await self._add_topics(await self._tree.topic_names())
        partitions = list(context.partitions())
        context.leaderships.update(await self._tree.leaderships(partitions))
        context.reassigning.update(
            partition for partition in partitions if context.assignment(partition).is_being_reassigned
        )

    async def _add_topics(self, names: Iterable[str]) -> list[TopicPartition]:
        """Add topics to the context, and give an id to those that have none. Returns their partitions."""
        added = []
        for name, assignment in (await self._tree.topic_assignments(names)).items():
            known = assignment
            if assignment.topic_id is None:
                known = TopicAssignment(random_uuid(self._random_bytes), assignment.partitions)
                await self._tree.set_topic_assignment(name, known)
            self.context.add_topic(name, known)
            added += self.context.partitions_of(name)
            await self._environment.pause()
        return added

    def _ineligible_for_deletion(self, topics: Iterable[str]) -> set[str]:
        """Those that have replicas offline, or partitions on the move."""
        moving = {partition.topic for partition in self.context.reassigning}
        return {
            name
            for name in topics
            if name in moving or any(map(self.context.offline_replicas, self.context.partitions_of(name)))
        }

    async def _send_metadata(self, broker_ids: Iterable[int], partitions: Iterable[TopicPartition] = ()) -> None:
        batch = self._environment.new_batch()
        batch.add_metadata(broker_ids, partitions)
        await batch.send()

    # --- brokers ---

    async def _on_broker_change(self, _event: events.BrokerChange) -> None:
        context = self.context
        now = await self._tree.brokers()
        before = context.live_brokers
        new = sorted(now.keys() - before.keys())
        dead = sorted(before.keys() - now.keys())
        bounced = sorted(each for each in now.keys() & before.keys() if now[each].epoch > before[each].epoch)
        if new or dead or bounced:
            logger.info("brokers new: %s, gone: %s, restarted: %s, alive: %s", new, dead, bounced, sorted(now))
        for broker_id in (*bounced, *dead):
            self._environment.control_plane.remove_broker(broker_id)
        for broker_id in (*new, *bounced):
            self._environment.control_plane.add_broker(now[broker_id])
        if new:
            await self._add_brokers({each: now[each] for each in new})
        # Kafka removes those that are gone last, and until then elects them for the partitions of restarted ones.
        if dead:
            await self._remove_brokers(dead)
        if bounced:
            await self._remove_brokers(bounced)
            await self._add_brokers({each: now[each] for each in bounced})

    async def _add_brokers(self, brokers: Mapping[int, LiveBroker]) -> None:
        """Brokers started: they are sent what they are to do, and offline partitions may get a leader."""
        context = self.context
        for broker_id in brokers:
            context.offline_directories.pop(broker_id, None)
        existing = [each for each in context.registered_broker_ids() if each not in brokers]
        context.live_brokers.update(brokers)
        await self._send_metadata(existing)
        batch = self._environment.new_batch()
        batch.add_all_metadata(brokers)
        await batch.send()
        replicas = context.replicas_on(brokers.keys())
        await self._replicas.change(
            [each for each in replicas if context.replica_state(each) in _MAY_GO_ONLINE], ReplicaStatus.ONLINE
        )
        await self._partitions.bring_online()
        await self._reassignments.resume(lambda _, assignment: not brokers.keys().isdisjoint(assignment.target))
        await self._deletions.resume_for({each.topic for each in replicas})

    async def _remove_brokers(self, broker_ids: Iterable[int]) -> None:
        context = self.context
        for broker_id in broker_ids:
            context.live_brokers.pop(broker_id, None)
            context.offline_directories.pop(broker_id, None)
            context.shutting_down.discard(broker_id)
        await self._go_offline(context.replicas_on(set(broker_ids)))

    async def _go_offline(self, replicas: Iterable[PartitionReplica]) -> None:
        """Replicas went offline: elect other leaders, then take the replicas out of the ISRs."""
        context = self.context
        lost = list(replicas)
        deleted = [each for each in lost if each.topic in context.topics_to_delete]
        kept = [each for each in lost if each.topic not in context.topics_to_delete]
        await self._partitions.mark(context.partitions_with_offline_leader(), PartitionStatus.OFFLINE)
        results = await self._partitions.bring_online()
        await self._replicas.change(kept, ReplicaStatus.OFFLINE)
        await self._deletions.fail_replicas(deleted)
        if not kept and not any(isinstance(result, Leadership) for result in results.values()):
            # No other request has informed the brokers.
            await self._send_metadata(context.registered_broker_ids())

    async def _on_broker_modifications(self, event: events.BrokerModifications) -> None:
        before = self.context.live_brokers.get(event.broker_id)
        now = await self._tree.broker(event.broker_id)
        if before is None or now is None or now.epoch != before.epoch:
            return
        if now.registration.endpoints != before.registration.endpoints:
            logger.info("broker %d listens on %s now", event.broker_id, now.registration.endpoints)
            self.context.live_brokers[event.broker_id] = now
            await self._send_metadata(self.context.registered_broker_ids())

    async def _on_controlled_shutdown(self, event: events.ControlledShutdown) -> None:
        context = self.context
        epoch = context.broker_epoch(event.broker_id)
        if epoch is None:
            event.reply(ApiError(ErrorCode.BROKER_NOT_AVAILABLE, f"Broker id {event.broker_id} does not exist."))
            return
        if event.broker_epoch not in (_UNKNOWN_EPOCH,) and event.broker_epoch < epoch:
            event.reply(
                ApiError(
                    ErrorCode.STALE_BROKER_EPOCH,
                    f"broker {event.broker_id} shuts down with epoch {event.broker_epoch} and has epoch {epoch}",
                )
            )
            return
        await self._move_away_from(event.broker_id)
        event.reply(context.partitions_led_by(event.broker_id))

    async def _move_away_from(self, broker_id: int) -> None:
        """Move its leaderships to other brokers, and stop its follower replicas."""
        context = self.context
        context.shutting_down.add(broker_id)
        movable = [
            partition
            for partition in context.partitions_on(broker_id)
            if len(context.assignment(partition).replicas) > 1
            and partition in context.leaderships
            and partition.topic not in context.topics_to_delete
        ]
        led = [partition for partition in movable if context.leaderships[partition].leader == broker_id]
        await self._partitions.go_online(led, ElectionCause.CONTROLLED_SHUTDOWN)
        followed = [partition for partition in movable if partition not in set(led)]
        batch = self._environment.new_batch()
        for partition in followed:
            batch.add_stop_replica(broker_id, partition, delete=False)
        await batch.send()
        await self._replicas.change(
            [PartitionReplica(partition, broker_id) for partition in followed], ReplicaStatus.OFFLINE
        )

    # --- topics ---

    async def _on_topic_change(self, _event: events.TopicChange) -> None:
        context = self.context
        now = set(await self._tree.topic_names())
        for name in sorted(context.topics.keys() - now):
            context.remove_topic(name)
        added = await self._add_topics(now - context.topics.keys())
        if added:
            logger.info("topics %s are new", sorted({partition.topic for partition in added}))
        await self._create_partitions(added)

    async def _on_partition_modifications(self, event: events.PartitionModifications) -> None:
        context = self.context
        topic = event.topic
        if topic not in context.topics:
            return
        found = (await self._tree.topic_assignments((topic,))).get(topic)
        known = len(context.topics[topic])
        if found is None or len(found.partitions) <= known:
            return
        if topic in context.topics_to_delete:
            logger.warning("topic %s is being deleted and gets no more partitions", topic)
            await self._tree.set_topic_assignment(topic, context.topic_assignment(topic))
            return
        context.topics[topic] += found.partitions[known:]
        added = context.partitions_of(topic)[known:]
        logger.info("topic %s has %d more partitions", topic, len(added))
        await self._create_partitions(added)

    async def _create_partitions(self, partitions: list[TopicPartition]) -> None:
        if not partitions:
            return
        replicas = self.context.replicas_of_partitions(partitions)
        await self._partitions.mark(partitions, PartitionStatus.NEW)
        await self._replicas.change(replicas, ReplicaStatus.NEW)
        await self._partitions.go_online(partitions, ElectionCause.OFFLINE)
        await self._replicas.change(replicas, ReplicaStatus.ONLINE)

    async def _on_topic_deletion(self, _event: events.TopicDeletion) -> None:
        context = self.context
        requested = set(await self._tree.topic_deletions())
        unknown = requested - context.topics.keys()
        if unknown:
            # A topic that was created a moment ago is known once its own event was processed.
            existing = await self._tree.topic_assignments(unknown)
            if existing:
                self.events.put(events.TopicChange())
                self.events.put(events.TopicDeletion())
            await self._tree.remove_topic_deletions(unknown - existing.keys())
        requested -= unknown
        if not self._environment.settings.delete_topic_enable:
            logger.info("topics %s are not deleted: delete.topic.enable is false", sorted(requested))
            await self._tree.remove_topic_deletions(requested)
        elif requested:
            moving = {partition.topic for partition in context.reassigning}
            context.topics_to_delete.update(requested)
            self._deletions.mark_ineligible(requested & moving, "partitions are being reassigned")
            await self._deletions.enqueue(requested)

    async def _on_unclean_enabled(self, event: events.UncleanLeaderElectionEnable) -> None:
        await self._partitions.bring_online(event.topic)

    # --- notices and answers of brokers ---

    async def _on_isr_changes(self, _event: events.IsrChangeNotification) -> None:
        notices, partitions = await self._tree.isr_changes()
        try:
            known = [partition for partition in partitions if self.context.has_partition(partition)]
            self.context.leaderships.update(await self._tree.leaderships(known))
            if known:
                await self._send_metadata(self.context.registered_broker_ids(), known)
            await self._reassignments.complete_if_in_sync(known)
        finally:
            await self._tree.remove_notices(notices)

    async def _on_log_dir_events(self, _event: events.LogDirEventNotification) -> None:
        """Brokers that lost a log directory are asked about all their replicas; their answers say which are offline."""
        notices, broker_ids = await self._tree.log_dir_events()
        try:
            replicas = self.context.replicas_on(set(broker_ids))
            await self._replicas.change(replicas, ReplicaStatus.ONLINE)
        finally:
            await self._tree.remove_notices(notices)

    async def _on_leader_and_isr_answered(self, event: events.LeaderAndIsrAnswered) -> None:
        if event.response.error_code:
            logger.error(
                "broker %d answers LeaderAndIsr with %s", event.broker_id, ErrorCode(event.response.error_code).name
            )
            return
        before = self.context.offline_directories.get(event.broker_id, set())
        now = set(before)
        for topic in event.response.topics:
            name = self.context.topic_names.get(topic.topic_id)
            if name is None:
                continue
            for each in topic.partition_errors:
                partition = TopicPartition(name, each.partition_index)
                if each.error_code == ErrorCode.KAFKA_STORAGE_ERROR:
                    now.add(partition)
                elif each.error_code == ErrorCode.NONE:
                    now.discard(partition)
        if now:
            self.context.offline_directories[event.broker_id] = now
        else:
            self.context.offline_directories.pop(event.broker_id, None)
        lost = sorted(now - before)
        if lost:
            logger.info("replicas of %s on broker %d are offline", ", ".join(map(str, lost)), event.broker_id)
            await self._go_offline(PartitionReplica(partition, event.broker_id) for partition in lost)

    async def _on_replica_deletions(self, event: events.ReplicaDeletionsAnswered) -> None:
        broker_id, error, partitions = event.deletions
        failed = [partition for partition, code in partitions.items() if error or code]
        deleted = [partition for partition, code in partitions.items() if not (error or code)]
        await self._deletions.fail_replicas(PartitionReplica(partition, broker_id) for partition in failed)
        if deleted:
            await self._deletions.complete_replicas(PartitionReplica(partition, broker_id) for partition in deleted)

    # --- requests ---

    async def _on_leader_election(self, event: events.ReplicaLeaderElection) -> None:
        if event.partitions is None:
            await self._elections.elect_from_tree()
            return
        results = await self._elections.elect(event.partitions, event.election_type, event.trigger)
        if event.reply is not None:
            event.reply(results)

    async def _on_balance(self, _event: events.AutoPreferredReplicaLeaderElection) -> None:
        try:
            await self._elections.balance()
        finally:
            self._schedule_balance(self._environment.settings.leader_imbalance_check_interval_seconds)

    async def _on_tree_reassignment(self, _event: events.TreeReassignment) -> None:
        await self._reassignments.request_from_tree()

    async def _on_api_reassignment(self, event: events.ApiReassignment) -> None:
        event.reply(await self._reassignments.request(event.targets))

    async def _on_list_reassignments(self, event: events.ListReassignments) -> None:
        event.reply(self._reassignments.under_way(event.partitions))

    async def _on_alter_partition(self, event: events.AlterPartition) -> None:
        response, altered = await self._isr_updates.alter(event.request, event.version)
        event.reply(response)
        await self._reassignments.complete_if_in_sync(altered)

    async def _on_allocate_producer_ids(self, event: events.AllocateProducerIds) -> None:
        epoch = self.context.broker_epoch(event.broker_id)
        if epoch is None:
            event.reply(ApiError(ErrorCode.BROKER_ID_NOT_REGISTERED))
        elif epoch != event.broker_epoch:
            event.reply(ApiError(ErrorCode.STALE_BROKER_EPOCH))
        else:
            event.reply(await self._tree.take_producer_ids(event.broker_id))


_MAY_GO_ONLINE: Final = frozenset(
    {ReplicaStatus.NEW, ReplicaStatus.ONLINE, ReplicaStatus.OFFLINE, ReplicaStatus.DELETION_INELIGIBLE}
)

_HANDLERS: Final[Mapping[type[Event], Callable[[Controller, Any], Awaitable[None]]]] = {
    events.Startup: Controller._on_startup,
    events.ControllerChange: Controller._on_controller_change,
    events.Reelect: Controller._on_reelect,
    events.RegisterBrokerAndReelect: Controller._on_new_session,
    events.Expire: Controller._on_expire,
    events.Shutdown: Controller._on_shutdown,
    events.BrokerChange: Controller._on_broker_change,
    events.BrokerModifications: Controller._on_broker_modifications,
    events.ControlledShutdown: Controller._on_controlled_shutdown,
    events.TopicChange: Controller._on_topic_change,
    events.PartitionModifications: Controller._on_partition_modifications,
    events.TopicDeletion: Controller._on_topic_deletion,
    events.UncleanLeaderElectionEnable: Controller._on_unclean_enabled,
    events.IsrChangeNotification: Controller._on_isr_changes,
    events.LogDirEventNotification: Controller._on_log_dir_events,
    events.LeaderAndIsrAnswered: Controller._on_leader_and_isr_answered,
    events.ReplicaDeletionsAnswered: Controller._on_replica_deletions,
    events.ReplicaLeaderElection: Controller._on_leader_election,
    events.AutoPreferredReplicaLeaderElection: Controller._on_balance,
    events.TreeReassignment: Controller._on_tree_reassignment,
    events.ApiReassignment: Controller._on_api_reassignment,
    events.ListReassignments: Controller._on_list_reassignments,
    events.AlterPartition: Controller._on_alter_partition,
    events.AllocateProducerIds: Controller._on_allocate_producer_ids,
}

_ALWAYS: Final = frozenset(
    {
        events.Startup,
        events.ControllerChange,
        events.Reelect,
        events.RegisterBrokerAndReelect,
        events.Expire,
        events.Shutdown,
    }
)
"""Events that concern every broker; the others concern the active controller alone."""

_REPEATED: Final = _ALWAYS - {events.Expire, events.Shutdown}
"""Events without which this broker would not be registered, or the cluster would have no controller."""

_WATCHED: Final[Mapping[tuple[str, EventKind], Event]] = {
    (paths.CONTROLLER, EventKind.CREATED): events.ControllerChange(),
    (paths.CONTROLLER, EventKind.CHANGED): events.ControllerChange(),
    (paths.CONTROLLER, EventKind.DELETED): events.Reelect(),
    (paths.BROKER_IDS, EventKind.CHILDREN): events.BrokerChange(),
    (paths.TOPICS, EventKind.CHILDREN): events.TopicChange(),
    (paths.DELETE_TOPICS, EventKind.CHILDREN): events.TopicDeletion(),
    (paths.ISR_CHANGES, EventKind.CHILDREN): events.IsrChangeNotification(),
    (paths.LOG_DIR_EVENTS, EventKind.CHILDREN): events.LogDirEventNotification(),
    (paths.REASSIGNMENTS, EventKind.CREATED): events.TreeReassignment(),
    (paths.PREFERRED_ELECTION, EventKind.CREATED): events.ReplicaLeaderElection(),
}


def event_of_watch(path: str, kind: EventKind) -> Event | None:
    """The event for a watch that fired."""
    event = _WATCHED.get((path, kind))
    if event is not None or kind is not EventKind.CHANGED:
        return event
    parent, _, name = path.rpartition("/")
    if parent == paths.TOPICS:
        return events.PartitionModifications(name)
    if parent == paths.BROKER_IDS:
        return events.BrokerModifications(int(name))
    return None


__all__ = ["Controller", "event_of_watch"]
