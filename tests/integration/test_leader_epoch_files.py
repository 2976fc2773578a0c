"""Tools and operators that look at `leader-epoch-checkpoint` beside a running broker see the epochs it is in."""

from __future__ import annotations

import asyncio
from pathlib import Path

from tests.integration.inside import Inside
from tests.integration.raw_client import RawClient, batch_of, produce
from tests.integration.servers import Servers, until
from tidelog.storage.leader_epochs import EpochEntry, parse_leader_epochs
from tidelog.storage.names import LEADER_EPOCH_CHECKPOINT
from tidelog.wire.messages.metadata import MetadataRequest, MetadataRequestTopic


def entries_in(directory: Path) -> list[EpochEntry]:
    path = directory / LEADER_EPOCH_CHECKPOINT
    return parse_leader_epochs(path.read_bytes(), str(path)) if path.exists() else []


def test_the_first_epoch_is_in_the_file_when_the_first_record_is_there(tmp_path: Path) -> None:
    async def wait() -> None:
        await until(lambda: entries_in(tmp_path / "t-0") == [EpochEntry(0, 0)])

    with Inside(tmp_path) as broker, RawClient(broker.port) as client:
        client.call(MetadataRequest(topics=[MetadataRequestTopic(name="t")], allow_auto_topic_creation=True), 12)
        assert produce(client, "t", 0, batch_of([b"a record"])).error_code == 0
        asyncio.run(wait())


def test_every_replica_has_a_new_epoch_in_its_file_soon_after_its_first_record(tmp_path: Path) -> None:
    async def play() -> None:
        servers = Servers(tmp_path, **{"num.partitions": 1})
        try:
            async with asyncio.timeout(100):
                await servers.start(1, 2, 3)
                await asyncio.to_thread(write, servers)
                await until(lambda: servers.is_led("t", {1, 2, 3}))
                shown = servers.shown("t")[1]
                assert shown is not None
                await servers.stop(shown.leader_id)
                left = set(servers.running)
                await until(lambda: servers.is_led("t", left))
                await asyncio.to_thread(write, servers)
                for log in [server.node.log_manager.get_log("t", 0) for server in servers.running.values()]:
                    assert log is not None
                    first, newest = log.leader_epochs.entries()
                    # A shutdown is one new epoch; if the controller moves with it, its successor may begin another.
                    assert first.epoch == shown.leader_epoch < newest.epoch
                    await until(lambda at=Path(log.directory), both=[first, newest]: entries_in(at) == both)  # type: ignore[misc]
        finally:
            await servers.stop()

    asyncio.run(play())


def write(servers: Servers) -> None:
    """One record, acknowledged by all in sync."""
    from confluent_kafka import Producer

    errors: list[object] = []
    producer = Producer({"bootstrap.servers": servers.addresses(), "acks": "all", "message.timeout.ms": 30_000})
    producer.produce("t", b"a record", on_delivery=lambda error, _: errors.append(error))
    assert producer.flush(40) == 0
    assert errors == [None]
