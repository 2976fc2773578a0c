"""What comes and goes in a broker is freed by its last reference, without a pass of the cycle collector.

The collector never looks again at what has been in use for a while (`broker.runtime.garbage`), so that a
cycle would be a leak.
"""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.integration.inside import Inside
from tests.integration.raw_client import (
    RawClient,
    batch_of,
    fetch_records,
    fetch_request,
    produce,
    produce_request,
)
from tests.integration.writers import wait_until
from tidelog.replication.wide_fetch import PARTITIONS_AT_ONCE
from tidelog.wire import messages
from tidelog.wire.messages.create_topics import CreatableTopic
from tidelog.wire.messages.delete_topics import DeleteTopicState
from tidelog.wire.messages.join_group import JoinGroupRequestProtocol
from tidelog.wire.messages.metadata import MetadataRequestTopic

WIDE_TOPIC = "wide"
ROOMS = (
    "tidelog.broker",
    "tidelog.network",
    "tidelog.replication",
    "tidelog.storage",
    "tidelog.groups",
    "tidelog.wire",
)


@contextmanager
def garbage_of_the_broker() -> Iterator[Counter[str]]:
    """Types of the broker's objects that are unreachable after the block and still there."""
    found: Counter[str] = Counter()
    gc.collect()
    gc.disable()
    try:
        yield found
        gc.set_debug(gc.DEBUG_SAVEALL)
        gc.collect()
        found.update(type(each).__qualname__ for each in gc.garbage if type(each).__module__.startswith(ROOMS))
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()


def use_everything(port: int, topic: str) -> None:
    with RawClient(port) as client:
        create(client, topic, 5)
        produce(client, topic, 0, batch_of([b"value"]))
        fetch_records(client, topic, 0, 0)
        client.call(messages.MetadataRequest(topics=[MetadataRequestTopic(name=f"{topic}-{n}") for n in range(3_000)]))
        join(client, f"group-{topic}")
        # A refusal, and a fetch that waits while its client leaves.
        client.call(produce_request("nowhere", {0: batch_of([b"value"])}), 8)
        client.send(fetch_request(topic, {0: 1}, min_bytes=1_000_000, max_wait_ms=60_000), 11)
    wide = dict.fromkeys(range(PARTITIONS_AT_ONCE + 1), 0)
    with RawClient(port) as client:
        client.call(fetch_request(WIDE_TOPIC, wide, max_wait_ms=0), 11)
        client.call(fetch_request(WIDE_TOPIC, wide, max_wait_ms=1), 11)
        client.send(fetch_request(WIDE_TOPIC, wide, max_wait_ms=60_000), 11)
    with RawClient(port) as client:
        client.call(messages.DeleteTopicsRequest(topics=[DeleteTopicState(name=topic)], timeout_ms=10_000), 6)


def create(client: RawClient, topic: str, partitions: int) -> None:
    created = CreatableTopic(name=topic, num_partitions=partitions, replication_factor=1)
    client.call(messages.CreateTopicsRequest(topics=[created], timeout_ms=30_000))


def join(client: RawClient, group_id: str) -> None:
    client.call(messages.FindCoordinatorRequest(coordinator_keys=[group_id]))
    request = messages.JoinGroupRequest(
        group_id=group_id, session_timeout_ms=6_000, rebalance_timeout_ms=1_000, protocol_type="consumer"
    )
    request.protocols = [JoinGroupRequestProtocol(name="range", metadata=b"m")]
    member_id = client.call(request, 3).member_id
    assert member_id
    client.call(messages.LeaveGroupRequest(group_id=group_id, member_id=member_id), 1)


def test_connections_requests_topics_and_members_leave_no_cycles(tmp_path: Path) -> None:
    settings = {"group.initial.rebalance.delay.ms": 0, "log.segment.delete.delay.ms": 0}
    with Inside(tmp_path, settings) as inside:
        with RawClient(inside.port) as client:
            create(client, WIDE_TOPIC, PARTITIONS_AT_ONCE + 1)
        use_everything(inside.port, "first")  # what is imported and compiled at first use
        with garbage_of_the_broker() as found:
            for round_number in range(5):
                use_everything(inside.port, f"topic-{round_number}")
            wait_until(
                lambda: inside.on_loop(lambda: len(inside.node.socket_server.connections)) == 0, "clients are gone"
            )
        assert not found
