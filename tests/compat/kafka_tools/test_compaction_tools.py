"""Kafka's own tools read what our cleaner has written: dump, index checks, console consumer."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.apache_kafka import dump_log_segments, run_tool
from benchmarks.processes import BrokerProcess
from benchmarks.tidelog_broker import TidelogBroker
from tests.compat.kafka_tools import dump_output
from tests.compat.kafka_tools.compacted import (
    PLAIN,
    TOPICS,
    TRANSACTIONAL,
    batches_in,
    clean_here,
    fill,
    new_directory,
)
from tests.compat.kafka_tools.samples import WrittenLog
from tests.effort import usually
from tidelog.client import Consumer, TopicPartition
from tidelog.records.kernels.compaction import PlainCompactor
from tidelog.records.record import Record

pytestmark = pytest.mark.java

CONSOLE_CONSUMER = "org.apache.kafka.tools.consumer.ConsoleConsumer"
NOT_CONSECUTIVE = "Non-consecutive offsets"


@pytest.fixture(scope="module")
def cleaned(tmp_path_factory: pytest.TempPathFactory) -> WrittenLog:
    """A directory that was filled and cleaned twice, and filled once more."""
    written = new_directory(tmp_path_factory.mktemp("cleaned") / "data")
    for seed in range(3):
        fill(written, seed)
        if seed < 2:
            clean_here(written, 1_000_000_000_000 + seed, lambda: PlainCompactor(1 << 22, 0.9))
    return written


def _files(written: WrittenLog, suffix: str) -> list[Path]:
    return [path for topic in TOPICS for path in written.partition_files(topic, suffix)]


def test_the_dump_tool_reads_every_record_that_is_left(cleaned: WrittenLog) -> None:
    output = dump_log_segments(_files(cleaned, ".log"), "--deep-iteration", "--print-data-log")
    # Gaps between offsets are what compaction is about; the tool remarks on them in Kafka's own logs as well.
    assert [line for line in dump_output.complaints(output) if NOT_CONSECUTIVE not in line] == []
    dumped: dict[str, list[int]] = {}
    for file in dump_output.parse(output):
        offsets = [int(record["offset"] or 0) for record in file.records]
        dumped.setdefault(file.path.parent.name.removesuffix("-0"), []).extend(offsets)
    for topic in TOPICS:
        kept = [
            record.offset
            for header, records in batches_in(cleaned, topic)
            if not header.is_control
            for record in records
        ]
        assert dumped[topic] == kept, topic
    assert "deleteHorizonMs: OptionalLong[" in output


def test_the_dump_tool_finds_each_index_entry_in_its_log(cleaned: WrittenLog) -> None:
    indexes = [*_files(cleaned, ".index"), *_files(cleaned, ".timeindex")]
    output = dump_log_segments(indexes)
    assert dump_output.complaints(output) == []
    sane = dump_log_segments(indexes, "--index-sanity-check")
    assert sane.count("passed sanity check.") + sane.count(".index is empty.") == len(indexes)


def test_the_dump_tool_reads_the_transaction_index(cleaned: WrittenLog) -> None:
    indexes = cleaned.partition_files(TRANSACTIONAL, ".txnindex")
    assert indexes
    assert dump_output.complaints(dump_log_segments(indexes)) == []


@pytest.fixture(scope="module")
def broker(cleaned: WrittenLog, tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    settings = {"log.dirs": str(cleaned.directory), "log.cleanup.policy": "compact", "log.cleaner.enable": "false"}
    with TidelogBroker(tmp_path_factory.mktemp("serving"), settings) as running:
        yield running


@pytest.mark.parametrize("topic", usually([TRANSACTIONAL], [PLAIN, "codec-zstd", TRANSACTIONAL]))
def test_the_console_consumer_sees_the_last_value_of_each_key(
    cleaned: WrittenLog, broker: BrokerProcess, topic: str
) -> None:
    batches = batches_in(cleaned, topic)
    expected = {
        record.offset: _shown(record) for header, records in batches if not header.is_control for record in records
    }
    isolation = "read_committed" if topic == TRANSACTIONAL else "read_uncommitted"
    count = len(_offsets_seen(broker, topic, isolation))
    printed = run_tool(
        CONSOLE_CONSUMER,
        *("--bootstrap-server", broker.bootstrap_servers, "--topic", topic, "--partition", "0", "--from-beginning"),
        *("--property", "print.key=true", "--property", "print.offset=true"),
        *("--isolation-level", isolation, "--timeout-ms", "60000", "--max-messages", str(count)),
    )
    found = {}
    for line in printed.splitlines():
        offset, key, value = line.split("\t")
        found[int(offset.removeprefix("Offset:"))] = (key, value)
    assert len(found) == count
    if topic == TRANSACTIONAL:
        assert found.items() < expected.items()
    else:
        assert found == expected


def _offsets_seen(broker: BrokerProcess, topic: str, isolation: str) -> list[int]:
    """How many records there are to wait for: the console consumer has no other way to know that it has them all."""
    settings = {"bootstrap.servers": broker.bootstrap_servers, "isolation.level": isolation}
    partition = TopicPartition(topic, 0)
    with Consumer(settings) as consumer:
        consumer.assign([partition])
        consumer.seek_to_beginning()
        end = consumer.end_offsets(partition)[partition]
        seen: list[int] = []
        while consumer.position(partition) < end:
            seen += [record.offset for record in consumer.poll(1.0)]
    return seen


def _shown(record: Record) -> tuple[str, str]:
    assert record.key is not None
    return record.key.decode(), "null" if record.value is None else record.value.decode()
