"""Share groups over sockets: locks, redelivery, restarts, and a cluster whose leaders and coordinators die."""

from __future__ import annotations

import time
from collections.abc import Iterator
from itertools import count

import pytest

from tests.effort import usually
from tests.integration.share_client import (
    ACCEPT,
    GAP,
    REJECT,
    RELEASE,
    RENEW,
    ShareMember,
    join_anywhere,
    leader_of,
    set_up,
    until_ready,
    write,
)
from tidelog.client import Admin, Producer, TopicPartition
from tidelog.testing import Broker, Cluster
from tidelog.wire.errors import ErrorCode
from tidelog.wire.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
)
from tidelog.wire.messages.delete_groups import DeleteGroupsRequest
from tidelog.wire.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsResponsePartition,
)
from tidelog.wire.messages.list_groups import ListGroupsRequest

SETTINGS = {"group.share.record.lock.duration.ms": "1000", "share.coordinator.state.topic.num.partitions": "3"}
_numbers = count(1)


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(SETTINGS) as running:
        yield running


def new_topic(broker: Broker) -> str:
    name = f"work-{next(_numbers)}"
    broker.create_topic(name)
    return name


def member(broker: Broker, topic: str, name: str = "a") -> ShareMember:
    """A member that has begun its session, at the end of the log if the group is new."""
    found = ShareMember(broker.port, topic, f"group-{topic}", name).join()
    found.fetch()
    assert not any(found.codes)
    return found


def test_a_record_is_locked_until_it_is_acknowledged(broker: Broker) -> None:
    topic = new_topic(broker)
    with member(broker, topic) as ann, member(broker, topic, "b") as bob:
        write(broker.bootstrap_servers, topic, "x", "y", "z")
        assert ann.fetch() == [(0, b"x", 1), (1, b"y", 1), (2, b"z", 1)]
        assert bob.fetch() == []
        assert bob.acknowledge((0, 0, [ACCEPT])) is ErrorCode.INVALID_RECORD_STATE
        assert ann.fetch((0, 0, [ACCEPT]), (1, 1, [RELEASE])) == [(1, b"y", 2)]
        assert ann.acknowledge((1, 2, [RELEASE, ACCEPT])) is ErrorCode.NONE
        assert ann.acknowledge((0, 0, [ACCEPT])) is ErrorCode.NONE, "what lies before the start is over"
        assert bob.fetch() == [(1, b"y", 3)]
        assert bob.acknowledge((1, 1, [REJECT])) is ErrorCode.NONE
        assert ann.fetch() == bob.fetch() == []


def test_a_lock_times_out_unless_it_is_renewed_and_a_record_is_delivered_so_often(broker: Broker) -> None:
    topic = new_topic(broker)
    with member(broker, topic) as ann, member(broker, topic, "b") as bob:
        write(broker.bootstrap_servers, topic, "x", "y")
        assert len(ann.fetch()) == 2
        time.sleep(0.6)
        assert ann.acknowledge((1, 1, [RENEW])) is ErrorCode.NONE
        assert bob.fetch_some() == [(0, b"x", 2)]
        assert ann.acknowledge((0, 0, [ACCEPT])) is ErrorCode.INVALID_RECORD_STATE
        assert ann.acknowledge((1, 1, [ACCEPT])) is ErrorCode.NONE
        for delivery in (3, 4, 5):
            assert bob.fetch((0, 0, [RELEASE])) == [(0, b"x", delivery)]
        assert bob.fetch((0, 0, [RELEASE])) == []


def test_a_fetch_waits_for_new_records_and_for_released_ones(broker: Broker) -> None:
    topic = new_topic(broker)
    with member(broker, topic) as ann, member(broker, topic, "b") as bob:
        began = time.monotonic()
        assert ann.fetch(wait_ms=200) == []
        assert time.monotonic() - began >= 0.19
        write(broker.bootstrap_servers, topic, "x")
        assert ann.fetch(wait_ms=5_000) == [(0, b"x", 1)]
        assert bob.fetch(wait_ms=30_000) == [(0, b"x", 2)], "the lock of the other has timed out"
        assert time.monotonic() - began < 10


def test_a_released_record_waits_as_long_as_the_group_or_the_release_says(broker: Broker) -> None:
    topic = new_topic(broker)
    set_up(broker, f"group-{topic}", **{"share.retry.delays": "400ms,60s"})
    with member(broker, topic) as ann, member(broker, topic, "b") as bob:
        write(broker.bootstrap_servers, topic, "x", "y", "z")
        assert len(ann.fetch()) == 3
        began = time.monotonic()
        assert ann.acknowledge((0, 0, [RELEASE])) is ErrorCode.NONE
        assert ann.acknowledge((1, 1, [RELEASE]), delay_ms=0) is ErrorCode.NONE
        assert ann.acknowledge((2, 2, [RELEASE]), delay_ms=3_600_000) is ErrorCode.NONE
        assert bob.fetch() == [(1, b"y", 2)], "a delay of its own goes before the group's"
        assert bob.acknowledge((1, 1, [ACCEPT])) is ErrorCode.NONE
        assert bob.fetch_some() == [(0, b"x", 2)]
        assert time.monotonic() - began >= 0.4
        assert bob.acknowledge((0, 0, [RELEASE])) is ErrorCode.NONE
        assert bob.fetch(wait_ms=700) == [], "the second delivery is followed by a minute"


@pytest.mark.parametrize(
    ("acks", "delay_ms"), [((0, 0, [RELEASE]), -2), ((0, 0, [RELEASE]), 2**62), ((0, 0, [ACCEPT]), 5)]
)
def test_a_delay_that_makes_no_sense_is_refused(
    broker: Broker, acks: tuple[int, int, list[int]], delay_ms: int
) -> None:
    topic = new_topic(broker)
    with member(broker, topic) as ann:
        write(broker.bootstrap_servers, topic, "x")
        assert len(ann.fetch()) == 1
        assert ann.acknowledge(acks, delay_ms=delay_ms) is ErrorCode.INVALID_REQUEST


def test_a_lock_that_has_ended_is_followed_by_the_delay(broker: Broker) -> None:
    topic = new_topic(broker)
    set_up(broker, f"group-{topic}", **{"share.retry.delays": "500ms"})
    with member(broker, topic) as ann, member(broker, topic, "b") as bob:
        began = time.monotonic()
        write(broker.bootstrap_servers, topic, "x")
        assert len(ann.fetch_some()) == 1
        assert bob.fetch_some() == [(0, b"x", 2)]
        assert time.monotonic() - began >= 1.5


def test_a_delay_outlives_the_broker() -> None:
    """It ends at the time that was stored, not later by the time that the broker was gone."""
    with Broker(SETTINGS, process=True) as broker:
        broker.create_topic("work")
        with member(broker, "work") as ann:
            write(broker.bootstrap_servers, "work", "x", "y")
            assert len(ann.fetch()) == 2
            released = time.time()
            assert ann.acknowledge((0, 0, [RELEASE]), delay_ms=4_000) is ErrorCode.NONE
            assert ann.acknowledge((1, 1, [RELEASE]), delay_ms=3_600_000) is ErrorCode.NONE
        broker.kill()
        broker.start()
        with ShareMember(broker.port, "work", "group-work", "c").join() as eve:
            assert eve.fetch_some(epoch=0) == [(0, b"x", 2)]
            assert time.time() - released >= 3.9


def test_what_a_member_holds_is_released_with_its_connection_or_session(broker: Broker) -> None:
    topic = new_topic(broker)
    with member(broker, topic) as ann, member(broker, topic, "b") as bob:
        write(broker.bootstrap_servers, topic, "x")
        assert bob.fetch() == [(0, b"x", 1)]
        bob.close_session()
        assert ann.fetch_some() == [(0, b"x", 1)], "it was not delivered to one that has left"
        began = time.monotonic()
        ann.client.close()
        assert bob.fetch_some(epoch=0) == [(0, b"x", 1)]
        assert time.monotonic() - began < 0.9, "the lock would have timed out"


def test_a_strict_limit_cuts_a_batch(broker: Broker) -> None:
    topic = new_topic(broker)
    with member(broker, topic) as ann:
        with Producer(bootstrap_servers=broker.bootstrap_servers, linger_ms=200) as producer:
            for value in range(10):
                producer.send(topic, str(value).encode(), partition=0)
        assert [offset for offset, _, _ in ann.fetch(records_max=4, is_strict=True)] == [0, 1, 2, 3]
        assert [offset for offset, _, _ in ann.fetch(records_max=1)] == [4, 5, 6, 7, 8, 9]


@pytest.mark.parametrize(
    ("ack", "code"),
    [
        ((1, 0, [ACCEPT]), ErrorCode.INVALID_REQUEST),
        ((0, 2, [ACCEPT, ACCEPT]), ErrorCode.INVALID_REQUEST),
        ((0, 0, [9]), ErrorCode.INVALID_REQUEST),
        ((0, 0, []), ErrorCode.INVALID_REQUEST),
        ((5, 5, [ACCEPT]), ErrorCode.INVALID_RECORD_STATE),
        ((0, 1, [ACCEPT, GAP]), ErrorCode.INVALID_RECORD_STATE),
    ],
)
def test_an_acknowledgement_that_cannot_be_is_refused_whole(
    broker: Broker, ack: tuple[int, int, list[int]], code: ErrorCode
) -> None:
    topic = new_topic(broker)
    with member(broker, topic) as ann:
        write(broker.bootstrap_servers, topic, "x")
        assert len(ann.fetch()) == 1
        assert ann.acknowledge(ack) is code
        assert ann.acknowledge((0, 0, [ACCEPT])) is ErrorCode.NONE


def test_requests_of_a_session_come_in_order(broker: Broker) -> None:
    topic = new_topic(broker)
    with member(broker, topic) as ann:
        ann.fetch(epoch=7)
        assert ann.codes == [ErrorCode.INVALID_SHARE_SESSION_EPOCH]
        assert ann.acknowledge((0, 0, [ACCEPT]), epoch=0) is ErrorCode.INVALID_SHARE_SESSION_EPOCH
        ann.fetch((0, 0, [ACCEPT]), epoch=0)
        assert ann.codes == [ErrorCode.INVALID_REQUEST]
        ann.close_session()
        ann.fetch(epoch=1)
        assert ann.codes == [ErrorCode.SHARE_SESSION_NOT_FOUND]


def test_aborted_records_and_markers_are_not_delivered(broker: Broker) -> None:
    """With the default, `read_uncommitted`, a group reads aborted records; markers are never delivered."""
    topic = new_topic(broker)
    with member(broker, topic) as ann:
        with Producer(bootstrap_servers=broker.bootstrap_servers, transactional_id=f"id-{topic}") as producer:
            producer.init_transactions()
            with producer.transaction():
                producer.send(topic, b"kept", partition=0)
            with pytest.raises(ZeroDivisionError):
                _abort(producer, topic)
        write(broker.bootstrap_servers, topic, "after")
        found = ann.fetch_some()
        assert [value for _, value, _ in found] == [b"kept", b"dropped", b"after"]
        assert ann.acknowledge(*[(offset, offset, [ACCEPT]) for offset, _, _ in found]) is ErrorCode.NONE
        assert start_of(ann) == 5


def _abort(producer: Producer, topic: str) -> None:
    with producer.transaction():
        producer.send(topic, b"dropped", partition=0)
        producer.flush()
        raise ZeroDivisionError


def start_of(ann: ShareMember) -> int:
    (partition,) = offsets_of(ann)
    return partition.start_offset


def offsets_of(ann: ShareMember) -> list[DescribeShareGroupOffsetsResponsePartition]:
    wanted = DescribeShareGroupOffsetsRequestGroup(group_id=ann.group, topics=None)
    asked = DescribeShareGroupOffsetsRequest(groups=[wanted])
    (group,) = ann.client.call(asked).groups
    assert not group.error_code, group
    return [partition for topic in group.topics for partition in topic.partitions]


def test_offsets_are_described_reset_and_deleted_with_their_group(broker: Broker) -> None:
    topic = new_topic(broker)
    with member(broker, topic) as ann:
        write(broker.bootstrap_servers, topic, *"abcdef")
        assert len(ann.fetch()) == 6
        assert ann.acknowledge((0, 1, [ACCEPT]), (4, 4, [ACCEPT])) is ErrorCode.NONE
        (described,) = offsets_of(ann)
        assert (described.start_offset, described.lag) == (2, 3)
        reset = AlterShareGroupOffsetsRequest(
            group_id=ann.group,
            topics=[
                AlterShareGroupOffsetsRequestTopic(
                    topic_name=topic,
                    partitions=[AlterShareGroupOffsetsRequestPartition(partition_index=0, start_offset=1)],
                )
            ],
        )
        assert ann.client.call(reset).error_code == ErrorCode.NON_EMPTY_GROUP
        ann.close_session()
        ann.heartbeat(epoch=-1)
        answer = ann.client.call(reset)
        assert [entry.error_code for each in answer.responses for entry in each.partitions] == [0]
        ann.member_epoch = 0
        ann.join()
        assert [offset for offset, _, _ in ann.fetch_some(epoch=0)] == [1, 2, 3, 4, 5]
        ann.close_session()
        ann.heartbeat(epoch=-1)
        listed = {group.group_id: group for group in ann.client.call(ListGroupsRequest()).groups}
        assert (listed[ann.group].group_type, listed[ann.group].group_state) == ("share", "Empty")
        (deleted,) = ann.client.call(DeleteGroupsRequest(groups_names=[ann.group])).results
        assert deleted.error_code == ErrorCode.NONE
        assert ann.group not in {group.group_id for group in ann.client.call(ListGroupsRequest()).groups}


def test_deleted_records_move_the_start(broker: Broker) -> None:
    topic = new_topic(broker)
    with member(broker, topic) as ann:
        write(broker.bootstrap_servers, topic, *"abc")
        with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
            admin.delete_records({TopicPartition(topic, 0): 2})
        assert ann.fetch_some() == [(2, b"c", 1)]
        assert ann.acknowledge((0, 2, [ACCEPT])) is ErrorCode.NONE
        assert start_of(ann) == 3


@pytest.mark.parametrize("is_killed", usually([True], [True, False]))
def test_a_restart_keeps_what_was_confirmed_and_nothing_else(is_killed: bool) -> None:
    with Broker(SETTINGS, process=True) as broker:
        broker.create_topic("work")
        with member(broker, "work") as ann:
            write(broker.bootstrap_servers, "work", *"abcdef")
            assert len(ann.fetch()) == 6
            assert ann.acknowledge((1, 3, [ACCEPT, RELEASE, REJECT])) is ErrorCode.NONE
        if is_killed:
            broker.kill()
            broker.start()
        else:
            broker.restart()
        with ShareMember(broker.port, "work", "group-work", "c").join() as eve:
            found = eve.fetch_some(epoch=0)
            assert [(offset, value) for offset, value, _ in found] == [(0, b"a"), (2, b"c"), (4, b"e"), (5, b"f")]
            assert [delivered for offset, _, delivered in found if offset == 2] == [2]


@pytest.mark.parametrize("kills", usually([1], [1, 6]))
def test_a_new_leader_goes_on_where_the_old_one_was_killed(kills: int) -> None:
    """The broker that leads the partition, and keeps states and groups as well, is killed again and again."""
    config = {**SETTINGS, "share.coordinator.state.topic.min.isr": "1", "min.insync.replicas": "1"}
    with Cluster(3, config) as cluster:
        cluster.create_topic("work", 1)
        confirmed: set[int] = set()
        written = 0
        for turn in range(kills):
            leader = leader_of(cluster)
            port = int(cluster.address_of(leader).rpartition(":")[2])
            with ShareMember(port, "work", "group", f"m{turn}").join(has_coordinator=False) as ann:
                join_anywhere(cluster, f"m{turn}")
                ann.fetch(epoch=0)
                until_ready(ann)
                write(cluster.bootstrap_servers, "work", *[str(written + each) for each in range(6)])
                written += 6
                found = ann.fetch_some()
                offsets = [offset for offset, _, _ in found]
                assert not confirmed & set(offsets), "what was confirmed is delivered again"
                for offset in offsets[::2]:
                    assert ann.acknowledge((offset, offset, [ACCEPT])) is ErrorCode.NONE
                    confirmed.add(offset)
            cluster.kill(leader)
            cluster.restart(leader)
        deadline = time.monotonic() + 60
        while len(confirmed) < written:
            assert time.monotonic() < deadline, f"a record was lost: of {written} only {sorted(confirmed)} came"
            _accept_what_comes(cluster, confirmed, written)


def _accept_what_comes(cluster: Cluster, confirmed: set[int], written: int) -> None:
    """Read as a new member from the leader, until everything came or another broker leads."""
    port = int(cluster.address_of(leader_of(cluster)).rpartition(":")[2])
    with ShareMember(port, "work", "group", "last").join(has_coordinator=False) as eve:
        join_anywhere(cluster, "last")
        eve.fetch(epoch=0)
        deadline = time.monotonic() + 10
        while len(confirmed) < written and not any(eve.codes) and time.monotonic() < deadline:
            for offset, _, _ in eve.fetch(wait_ms=300):
                assert offset not in confirmed
                if eve.acknowledge((offset, offset, [ACCEPT])) is ErrorCode.NONE:
                    confirmed.add(offset)
