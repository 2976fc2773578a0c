"""`kill -9` while topics come and go and while old segments are deleted.

What was acknowledged has happened, what was not may have happened or not, and nothing is left in between.
"""

from __future__ import annotations

import os
import random
import threading
import time
from functools import partial
from pathlib import Path

import pytest

from tests.effort import usually
from tests.integration.log_files import walk_partition
from tests.integration.raw_client import (
    RawClient,
    batch_of,
    describe_topic,
    end_offset,
    fetch_records,
    produce,
    start_offset,
)
from tests.integration.writers import Writer, wait_until
from tidelog.testing import Broker
from tidelog.wire import messages
from tidelog.wire.errors import ErrorCode
from tidelog.wire.messages import (
    create_partitions,
    create_topics,
    delete_topics,
    describe_configs,
    incremental_alter_configs,
)

SEED = int(os.environ.get("TIDELOG_SEED", "4711"))
NAMES = [f"topic-{number}" for number in range(6)]
PARTITIONS = 3


class Ledger:
    """What is known of one topic: does it exist, and with which id and records?"""

    def __init__(self, name: str) -> None:
        self.name = name
        self.exists: bool | None = False
        """None while it is not known, because an answer never came."""
        self.topic_id = bytes(16)
        self.values: list[bytes] = []
        self.partitions = {0}
        """How many it may have: two numbers while it is growing."""
        self.retention = {""}
        """What `retention.bytes` may be: two values while it is changed."""

    def begin(self, topic_id: bytes) -> None:
        """It was made."""
        self.exists, self.topic_id, self.values = True, topic_id, []
        self.partitions, self.retention = {PARTITIONS}, {"-1"}


class Admin(threading.Thread):
    """Creates, fills, changes and deletes topics, one after the other, until its connection breaks."""

    def __init__(self, port: int, ledgers: list[Ledger], seed: int) -> None:
        super().__init__(name="admin", daemon=True)
        self._port = port
        self._ledgers = ledgers
        self._random = random.Random(seed)
        self.changes = 0
        self.failure: BaseException | None = None

    def run(self) -> None:
        try:
            with RawClient(self._port) as client:
                while True:
                    ledger = self._random.choice(self._ledgers)
                    assert ledger.exists is not None
                    if not ledger.exists:
                        self._create_topic(client, ledger)
                    else:
                        changes = (self._fill_topic, self._alter_topic, self._grow_topic, self._delete_topic)
                        self._random.choice(changes)(client, ledger)
                    self.changes += 1
        except OSError:
            return
        except BaseException as error:
            self.failure = error

    def _create_topic(self, client: RawClient, ledger: Ledger) -> None:
        topic = create_topics.CreatableTopic(name=ledger.name, num_partitions=PARTITIONS, replication_factor=1)
        ledger.exists = None
        result = client.call(messages.CreateTopicsRequest(topics=[topic], timeout_ms=5000)).topics[0]
        assert result.error_code == ErrorCode.NONE, result
        ledger.begin(result.topic_id)

    def _fill_topic(self, client: RawClient, ledger: Ledger) -> None:
        value = b"%d" % self._random.randrange(10**9)
        answer = produce(client, ledger.name, 0, batch_of([value]))
        assert answer.error_code == ErrorCode.NONE, answer
        ledger.values.append(value)

    def _alter_topic(self, client: RawClient, ledger: Ledger) -> None:
        value = str(self._random.randrange(10**9, 10**12))
        ledger.retention.add(value)
        config = incremental_alter_configs.AlterableConfig(name="retention.bytes", config_operation=0, value=value)
        resource = incremental_alter_configs.AlterConfigsResource(
            resource_type=2, resource_name=ledger.name, configs=[config]
        )
        response = client.call(messages.IncrementalAlterConfigsRequest(resources=[resource]))
        assert response.responses[0].error_code == ErrorCode.NONE, response
        ledger.retention = {value}

    def _grow_topic(self, client: RawClient, ledger: Ledger) -> None:
        (count,) = ledger.partitions
        if count >= 2 * PARTITIONS:
            return
        ledger.partitions.add(count + 1)
        topic = create_partitions.CreatePartitionsTopic(name=ledger.name, count=count + 1, assignments=None)
        response = client.call(messages.CreatePartitionsRequest(topics=[topic], timeout_ms=5000))
        assert response.results[0].error_code == ErrorCode.NONE, response
        ledger.partitions = {count + 1}

    def _delete_topic(self, client: RawClient, ledger: Ledger) -> None:
        ledger.exists = None
        asked = delete_topics.DeleteTopicState(name=ledger.name)
        result = client.call(messages.DeleteTopicsRequest(topics=[asked], timeout_ms=5000)).responses[0]
        assert result.error_code == ErrorCode.NONE, result
        ledger.exists = False


@pytest.mark.timeout(180)
@pytest.mark.parametrize("kills", usually([4], [4, 15]))
def test_topics_are_there_or_not_whenever_the_broker_dies(tmp_path: Path, kills: int) -> None:
    """Created ones stay with their ids and records, deleted ones stay away, and names are never haunted."""
    source = random.Random(SEED)
    ledgers = [Ledger(name) for name in NAMES]
    broker = Broker({"log.segment.delete.delay.ms": 5}, process=True, data_dir=tmp_path)
    with broker:
        for _ in range(kills):
            admin = Admin(broker.port, ledgers, source.randrange(2**32))
            admin.start()
            wait_until(
                partial(lambda admin: admin.failure is not None or admin.changes > 10, admin), "topics come and go"
            )
            time.sleep(source.uniform(0, 0.03))
            broker.kill()
            admin.join(30)
            if admin.failure is not None:
                raise admin.failure
            broker.start()
            assert "Traceback" not in broker.logs
            with RawClient(broker.port) as client:
                for ledger in ledgers:
                    check(client, ledger)
        wanted = {f"{ledger.name}-{n}" for ledger in ledgers if ledger.exists for n in range(max(ledger.partitions))}
        wait_until(lambda: directories(tmp_path) == wanted, f"{wanted} are left and nothing else")


def check(client: RawClient, ledger: Ledger) -> None:
    """The topic is as the ledger says; what was in doubt is decided now."""
    found = describe_topic(client, ledger.name)
    exists = found.error_code == ErrorCode.NONE
    if ledger.exists is None:
        # A creation or a deletion was under way. It has happened or it has not.
        if exists and found.topic_id != ledger.topic_id:
            ledger.begin(found.topic_id)
        ledger.exists = exists
    assert exists == ledger.exists, f"{ledger.name}: {found}"
    if not exists:
        assert found.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return
    assert found.topic_id == ledger.topic_id
    assert len(found.partitions) in ledger.partitions
    ledger.partitions = {len(found.partitions)}
    retention = config_of(client, ledger.name, "retention.bytes")
    assert retention in ledger.retention
    ledger.retention = {retention}
    values = [record.value for record in fetch_records(client, ledger.name, 0)]
    # One record more may have been written whose answer never came.
    assert values[: len(ledger.values)] == ledger.values
    assert len(values) <= len(ledger.values) + 1
    ledger.values = [value or b"" for value in values]
    for index in range(1, len(found.partitions)):
        assert end_offset(client, ledger.name, index) == 0


def config_of(client: RawClient, topic: str, name: str) -> str:
    resource = describe_configs.DescribeConfigsResource(resource_type=2, resource_name=topic, configuration_keys=[name])
    response = client.call(messages.DescribeConfigsRequest(resources=[resource]))
    return str(response.results[0].configs[0].value)


def directories(data_dir: Path) -> set[str]:
    return {path.name for path in data_dir.iterdir() if path.is_dir()}


RETAINED = ("retained", 0)


@pytest.mark.timeout(180)
@pytest.mark.parametrize("kills", usually([4], [4, 12]))
def test_retention_and_kills_leave_a_log_without_gaps(tmp_path: Path, kills: int) -> None:
    """Segments are deleted all the time. The start only moves forward, and from there on everything is there."""
    source = random.Random(SEED)
    settings = {
        "log.retention.check.interval.ms": 10,
        "log.initial.task.delay.ms": 5,
        "log.flush.start.offset.checkpoint.interval.ms": 20,
    }
    broker = Broker(settings, process=True, data_dir=tmp_path)
    with broker:
        config = {"segment.bytes": 4096, "retention.bytes": 20_000, "file.delete.delay.ms": 15}
        broker.create_topic(RETAINED[0], 1, config=config)
        writer = Writer("writer", lambda: broker.port, [RETAINED], SEED)
        writer.start()
        starts = [0]
        for _ in range(kills):
            before = writer.acknowledged_count
            wait_until(
                partial(lambda before: writer.failure is not None or writer.acknowledged_count > before + 60, before),
                "progress",
            )
            time.sleep(source.uniform(0, 0.03))
            broker.kill()
            broker.start()
            assert "Traceback" not in broker.logs
            with RawClient(broker.port) as client:
                starts.append(start_offset(client, *RETAINED))
        writer.stop()
        wait_until(lambda: not list(tmp_path.glob("*/*.deleted")), "what was on its way out is gone")
    assert starts == sorted(starts), "the start never moves back"
    assert starts[-1] > 0, "retention has been at work"
    stored = {batch.base_offset: batch for batch in walk_partition(tmp_path / f"{RETAINED[0]}-0")}
    first = min(stored)
    assert first >= starts[-1]
    for entry in writer.acknowledged[RETAINED]:
        if entry.base_offset >= first:
            batch = stored[entry.base_offset]
            assert (batch.producer_id, batch.base_sequence) == (entry.producer_id, entry.sequence)
