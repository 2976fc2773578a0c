"""Stopping in order and starting again: everything is as it was, and nothing has to be read to know that."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Iterator
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
    new_producer_id,
    produce,
    produce_request,
    start_offset,
)
from tests.integration.writers import Writer, wait_until
from tidelog.testing import Broker
from tidelog.wire import messages
from tidelog.wire.errors import ErrorCode
from tidelog.wire.messages import delete_records, describe_configs, incremental_alter_configs

TOPIC = "kept"
MARKER = ".kafka_cleanshutdown"


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    with Broker(process=True, data_dir=tmp_path / "data") as broker:
        broker.create_topic(TOPIC, 2, config={"segment.bytes": 2000, "retention.ms": -1})
        yield broker


def fill(client: RawClient, count: int = 50) -> tuple[int, int]:
    """Write one record after the other as one idempotent producer, whose id and epoch come back."""
    producer = new_producer_id(client)
    for sequence in range(count):
        answer = produce(client, TOPIC, 0, batch_of([b"record %d" % sequence], producer=(*producer, sequence)))
        assert (answer.error_code, answer.base_offset) == (ErrorCode.NONE, sequence)
    return producer


def set_config(client: RawClient, name: str, value: str) -> None:
    config = incremental_alter_configs.AlterableConfig(name=name, config_operation=0, value=value)
    resource = incremental_alter_configs.AlterConfigsResource(resource_type=2, resource_name=TOPIC, configs=[config])
    response = client.call(messages.IncrementalAlterConfigsRequest(resources=[resource]))
    assert response.responses[0].error_code == ErrorCode.NONE, response


def config_of(client: RawClient, name: str) -> str:
    resource = describe_configs.DescribeConfigsResource(resource_type=2, resource_name=TOPIC, configuration_keys=[name])
    response = client.call(messages.DescribeConfigsRequest(resources=[resource]))
    return str(response.results[0].configs[0].value)


def delete_before(client: RawClient, offset: int) -> None:
    partition = delete_records.DeleteRecordsPartition(partition_index=0, offset=offset)
    topic = delete_records.DeleteRecordsTopic(name=TOPIC, partitions=[partition])
    response = client.call(messages.DeleteRecordsRequest(topics=[topic], timeout_ms=5000))
    assert response.topics[0].partitions[0].error_code == ErrorCode.NONE, response


def test_everything_survives_a_clean_restart(broker: Broker) -> None:
    with RawClient(broker.port) as client:
        producer = fill(client)
        delete_before(client, 7)
        set_config(client, "retention.bytes", "123456789")
        before = describe_topic(client, TOPIC)
    broker.restart()
    with RawClient(broker.port) as client:
        after = describe_topic(client, TOPIC)
        assert (after.topic_id, after.partitions) == (before.topic_id, before.partitions), "leader epochs included"
        assert (start_offset(client, TOPIC, 0), end_offset(client, TOPIC, 0)) == (7, 50)
        assert config_of(client, "retention.bytes") == "123456789"
        values = [record.value for record in fetch_records(client, TOPIC, 0, 7)]
        assert values == [b"record %d" % number for number in range(7, 50)]
        assert new_producer_id(client)[0] > producer[0], "no producer id is given twice"


def test_the_last_five_batches_of_a_producer_are_known_after_a_clean_restart(broker: Broker) -> None:
    """Their answers may have been lost when the broker stopped; the producer sends them again."""
    with RawClient(broker.port) as client:
        producer = fill(client)
    broker.restart()
    with RawClient(broker.port) as client:
        for sequence in range(45, 50):
            answer = produce(client, TOPIC, 0, batch_of([b"record %d" % sequence], producer=(*producer, sequence)))
            assert (answer.error_code, answer.base_offset) == (ErrorCode.NONE, sequence)
        answer = produce(client, TOPIC, 0, batch_of([b"next"], producer=(*producer, 50)))
        assert (answer.error_code, answer.base_offset) == (ErrorCode.NONE, 50)
        answer = produce(client, TOPIC, 0, batch_of([b"gap"], producer=(*producer, 60)))
        assert answer.error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_nothing_is_read_after_a_clean_shutdown(broker: Broker) -> None:
    """The marker vouches for the files. It is there only while no broker runs, and one start uses it up."""
    marker = Path(broker.data_dir) / MARKER
    with RawClient(broker.port) as client:
        fill(client)
    assert not marker.exists()
    broker.restart()
    assert not marker.exists()
    assert "loaded 2 logs" in broker.logs
    assert "recovered" not in broker.logs
    assert "no clean shutdown" not in broker.logs
    broker.kill()
    assert not marker.exists()
    broker.start()
    assert "no clean shutdown was recorded" in broker.logs
    assert f"recovered {TOPIC}-0 up to offset 50" in broker.logs


def test_the_marker_is_kafkas(broker: Broker, tmp_path: Path) -> None:
    broker.stop()
    assert json.loads((tmp_path / "data" / MARKER).read_text()) == {"version": 0, "brokerEpoch": -1}


def test_the_leader_epoch_grows_after_an_unclean_shutdown_only(broker: Broker) -> None:
    epochs = []
    for end in (broker.restart, broker.kill, broker.restart, broker.kill):
        end()
        if not broker.is_running:
            broker.start()
        with RawClient(broker.port) as client:
            epochs.append(describe_topic(client, TOPIC).partitions[0].leader_epoch)
    assert epochs == [0, 1, 1, 2]


@pytest.mark.parametrize("restarts", usually([2], [2, 6]))
def test_an_answer_under_way_at_a_clean_shutdown_is_given_or_the_record_is_known_later(
    broker: Broker, restarts: int
) -> None:
    """Stopped under load again and again: nothing is lost, nothing doubled."""
    writers = [Writer(f"writer-{n}", lambda: broker.port, [(TOPIC, 0), (TOPIC, 1)], seed=n) for n in range(3)]
    for writer in writers:
        writer.start()
    for round_number in range(restarts):
        goal = 30 * (round_number + 1)
        wait_until(
            partial(lambda goal: all(w.failure or w.acknowledged_count >= goal for w in writers), goal), "writers go on"
        )
        broker.restart()
        assert "no clean shutdown" not in broker.logs
    for writer in writers:
        writer.stop()
    broker.stop()
    for partition in (0, 1):
        stored = [
            (b.producer_id, b.base_sequence) for b in walk_partition(Path(broker.data_dir) / f"{TOPIC}-{partition}")
        ]
        promised = [(a.producer_id, a.sequence) for w in writers for a in w.acknowledged[TOPIC, partition]]
        assert sorted(stored) == sorted(promised)
        assert len(set(stored)) == len(stored)


def test_requests_that_came_before_the_signal_are_answered(broker: Broker) -> None:
    """What is in the socket when SIGTERM comes may or may not be read; what was written is acknowledged."""
    with RawClient(broker.port) as client:
        for number in range(100):
            client.send(produce_request(TOPIC, {0: batch_of([b"record %d" % number])}), 9)
        os.kill(broker.pid, signal.SIGTERM)
        answered = 0
        try:
            while True:
                client.answer(messages.ProduceRequest, 9)
                answered += 1
        except ConnectionError:
            pass
    broker.stop()
    stored = walk_partition(Path(broker.data_dir) / f"{TOPIC}-0")
    assert answered == len(stored)


@pytest.mark.parametrize("delays_s", usually([(0.0, 0.006)], [(0.0, 0.006), (0.001, 0.003, 0.01, 0.02)]), ids=len)
def test_a_stop_that_is_cut_short_loses_nothing(broker: Broker, delays_s: tuple[float, ...]) -> None:
    """SIGTERM, and SIGKILL a moment later: half of the files may be closed."""
    with RawClient(broker.port) as client:
        fill(client)
    for delay_s in delays_s:
        os.kill(broker.pid, signal.SIGTERM)
        time.sleep(delay_s)
        broker.kill()
        broker.start()
        with RawClient(broker.port) as client:
            assert [r.value for r in fetch_records(client, TOPIC, 0)] == [b"record %d" % n for n in range(50)]
