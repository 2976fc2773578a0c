from tests.unit.client.consumer.batches import batch
from tests.unit.client.consumer.clusters import metadata_with, topic_id
from tidelog.client.aio.consumer.completed_fetch import CompletedFetch, Decoding
from tidelog.client.aio.consumer.fetch_buffer import FetchBuffer
from tidelog.client.aio.consumer.fetch_plan import plan_fetches
from tidelog.client.aio.consumer.offset_reset import EARLIEST
from tidelog.client.aio.consumer.partition_state import Position
from tidelog.client.aio.consumer.subscription import SubscriptionState
from tidelog.client.fetch_session import FetchEntry
from tidelog.client.types import TopicPartition

T0, T1, T2 = (TopicPartition("t", number) for number in range(3))


class World:
    """Three partitions, the first two led by broker 1, the third by broker 2."""

    def __init__(self, leaders=((1, 4), (1, 4), (2, 4))):
        self.metadata = metadata_with({"t": leaders})
        self.subscription = SubscriptionState(EARLIEST)
        self.subscription.assign([T0, T1, T2])
        self.subscription.follow_leaders(self.metadata)
        for state in self.subscription:
            state.seek(Position(0))
        self.buffer = FetchBuffer(self.subscription)

    def plan(self, under_way=(), now_ms=0):
        return plan_fetches(self.subscription, self.buffer, self.metadata, under_way, now_ms, 1000)

    def nodes(self, **arguments):
        return {node: sorted(wanted) for node, wanted in self.plan(**arguments).by_node.items()}

    def state(self, partition):
        return self.subscription.state_of(partition)

    def buffer_up(self, partition, first):
        self.buffer.add(CompletedFetch(partition, first, batch(first), Decoding()))


def test_every_leader_is_asked_for_its_partitions():
    world = World()
    assert world.nodes() == {1: [T0, T1], 2: [T2]}
    assert world.plan().by_node[2][T2] == FetchEntry(topic_id("t"), 0, -1, 1000, 4, -1)


def test_what_is_under_way_is_not_asked_for_again():
    world = World()
    assert world.nodes(under_way={(1, T0, 0), (1, T1, 0)}) == {2: [T2]}
    world.state(T0).seek(Position(50))
    assert world.nodes(under_way={(1, T0, 0), (1, T1, 0)}) == {1: [T0], 2: [T2]}, "but from elsewhere it is"


def test_a_partition_is_asked_for_at_its_new_leader_though_the_old_one_has_not_answered():
    """The old leader may be cut off: its answer comes with the request's timeout."""
    world = World()
    assert world.nodes(under_way={(9, T0, 0), (1, T1, 0)}) == {1: [T0], 2: [T2]}


def test_paused_partitions_and_those_without_position_are_left_out():
    world = World()
    world.state(T0).is_paused = True
    world.state(T1).request_reset(EARLIEST)
    assert world.nodes() == {2: [T2]}


def test_the_next_fetch_begins_where_the_last_one_ended():
    world = World()
    world.buffer_up(T0, 0)
    assert world.plan().by_node[1][T0].fetch_offset == 1


def test_a_broker_waits_until_none_of_its_partitions_holds_enough():
    """Asked for the others alone, which may have nothing new, it would keep the request for fetch.max.wait.ms."""
    world = World()
    world.buffer_up(T0, 0)
    world.buffer_up(T0, 1)
    assert world.nodes() == {2: [T2]}
    world.buffer.take(1)
    assert world.nodes() == {1: [T0, T1], 2: [T2]}


def test_who_was_refused_a_moment_ago_waits():
    world = World()
    world.state(T0).retry_at_ms = 100
    assert world.nodes(now_ms=99) == {1: [T1], 2: [T2]}
    assert world.nodes(now_ms=100) == {1: [T0, T1], 2: [T2]}


def test_without_a_leader_new_metadata_is_needed():
    world = World(leaders=((1, 4), (1, 4), (-1, 4)))
    plan = world.plan()
    assert plan.needs_metadata
    assert set(plan.by_node) == {1}


def test_the_replica_nearby_is_asked_while_it_is_there():
    world = World()
    world.state(T0).prefer_replica(3, until_ms=1000)
    assert world.nodes() == {1: [T1], 2: [T2], 3: [T0]}
    world.metadata = metadata_with({"t": [(1, 4), (1, 4), (2, 4)]}, brokers={1: None, 2: None})
    assert world.nodes() == {1: [T0, T1], 2: [T2]}
