"""A data directory that Apache Kafka 3.9.1 wrote moves in: nothing of it is deleted or mistaken, at any later start.

The stored directory holds idempotent producers 0 to 4, producer 5 with an open transaction, several segments and both
internal topics. `tests/compat/kafka_tools/test_moving_to_tidelog_and_back.py` says the same with a Kafka that runs.
"""

from __future__ import annotations

import logging
import re
import shutil
from pathlib import Path

import pytest

from tests.integration.inside import Inside
from tests.integration.raw_client import (
    RawClient,
    batch_of,
    end_offset,
    fetch_records,
    new_producer_id,
    produce,
    start_offset,
)
from tests.unit.storage._logs import unpack_kafka_directory
from tidelog.client import Admin, NewTopic
from tidelog.metadata.embedded import METADATA_FILE_NAME, EmbeddedStore
from tidelog.metadata.walk import subtree
from tidelog.storage.directories.log_directory import LogDirectory
from tidelog.wire.errors import ApiError, ErrorCode

PRODUCER_IDS = range(6)
USER_TOPICS = {"plain", "small-seg", "txn-topic", "with.dots_and-dashes-7"}
SHORT_RETENTION = {"log.retention.ms": 1, "log.cleanup.policy": "delete,compact", "log.retention.bytes": 1}


@pytest.fixture
def kafka_directory(tmp_path: Path) -> Path:
    return unpack_kafka_directory(tmp_path)


def forget_adoption(directory: Path) -> None:
    """Leave the tree as version 0.1 did: no overrides, producer ids from 0, and no word of it."""
    store = EmbeddedStore(str(directory / METADATA_FILE_NAME))
    for name in store.children("/config/topics"):
        store.set(f"/config/topics/{name}", b'{"version":1,"config":{}}')
    store.set("/latest_producer_id_block", b"")
    for path in subtree(store, "/tidelog"):
        store.delete(path)
    store.close()


def overrides(inside: Inside, topic: str) -> dict[str, str]:
    return inside.on_loop(lambda: dict(inside.node.image.overrides(topic)))


def first_batches_of_new_producers(port: int) -> None:
    """More producers than Kafka had, each of whose first batch must be appended, not taken for a retry."""
    with RawClient(port) as client:
        for number in range(len(PRODUCER_IDS) + 2):
            producer = new_producer_id(client)
            assert producer[0] not in PRODUCER_IDS
            for topic, partition in (("plain", 0), ("small-seg", 0)):
                end = end_offset(client, topic, partition)
                batch = batch_of([b"new %d" % number], producer=(*producer, 0))
                answer = produce(client, topic, partition, batch)
                assert (answer.error_code, answer.base_offset) == (ErrorCode.NONE, end)


def test_the_first_batch_of_a_new_producer_is_appended(kafka_directory: Path) -> None:
    for _ in range(2):
        with Inside(kafka_directory) as inside:
            first_batches_of_new_producers(inside.port)


def test_producer_ids_are_repaired_where_an_older_version_adopted(kafka_directory: Path) -> None:
    with Inside(kafka_directory):
        pass
    forget_adoption(kafka_directory)
    with Inside(kafka_directory) as inside:
        first_batches_of_new_producers(inside.port)


def test_producer_ids_that_only_batches_hold_are_kept_clear_of(kafka_directory: Path) -> None:
    for snapshot in kafka_directory.glob("*/*.snapshot"):
        snapshot.unlink()
    with Inside(kafka_directory) as inside:
        first_batches_of_new_producers(inside.port)


def test_a_producer_id_that_only_the_transaction_state_holds_is_kept_clear_of(kafka_directory: Path) -> None:
    for path in kafka_directory.iterdir():
        if path.is_dir() and not path.name.startswith("__"):
            for file in path.iterdir():
                file.unlink()
            path.rmdir()
    with Inside(kafka_directory) as inside, RawClient(inside.port) as client:
        assert new_producer_id(client)[0] > max(PRODUCER_IDS)


def test_ids_stay_clear_of_those_that_kafka_would_allocate_next(kafka_directory: Path) -> None:
    """Kafka's own counter is in ZooKeeper: when the directory moves back, it goes on where it was."""
    with Inside(kafka_directory) as inside, RawClient(inside.port) as client:
        assert new_producer_id(client)[0] > 2**31


@pytest.mark.parametrize("was_adopted_before", [False, True])
def test_internal_topics_get_their_overrides(kafka_directory: Path, was_adopted_before: bool) -> None:
    if was_adopted_before:
        with Inside(kafka_directory):
            pass
        forget_adoption(kafka_directory)
    for _ in range(2):
        with Inside(kafka_directory) as inside:
            offsets, transactions = overrides(inside, "__consumer_offsets"), overrides(inside, "__transaction_state")
            assert offsets == {
                "cleanup.policy": "compact",
                "compression.type": "producer",
                "segment.bytes": "104857600",
            }
            assert transactions == {
                "cleanup.policy": "compact",
                "compression.type": "uncompressed",
                "min.insync.replicas": "1",
                "segment.bytes": "104857600",
                "unclean.leader.election.enable": "false",
            }
            for log in inside.node.log_manager.logs_of("__consumer_offsets"):
                assert tuple(log.config.cleanup_policy) == ("compact",)
                assert log.config.segment_bytes == 104857600


def test_nothing_is_deleted_whatever_the_defaults_are(kafka_directory: Path) -> None:
    """Not at the first retention check, not after a restart, not when the broker's defaults change."""
    with Inside(kafka_directory) as inside, RawClient(inside.port) as client:
        before = {topic: fetch_records(client, topic, 0) for topic in ("plain", "small-seg")}
        started = {topic: start_offset(client, topic, 0) for topic in before}
    for settings in (SHORT_RETENTION, {}):
        with Inside(kafka_directory, settings) as inside:
            inside.on_loop(inside.node.log_manager.housekeeping.delete_old_segments)
            inside.run(inside.node.hosted_topics.apply_all_configs)
            inside.on_loop(inside.node.log_manager.housekeeping.delete_old_segments)
            with RawClient(inside.port) as client:
                for topic, records in before.items():
                    assert start_offset(client, topic, 0) == started[topic]
                    assert fetch_records(client, topic, 0) == records


def test_every_start_names_the_topics_whose_settings_are_not_known(
    kafka_directory: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (kafka_directory / "cleaner-offset-checkpoint").write_text("0\n1\nsmall-seg 0 130\n")
    for _ in range(2):
        caplog.clear()
        with caplog.at_level(logging.WARNING), Inside(kafka_directory) as inside:
            assert overrides(inside, "plain") == {
                "cleanup.policy": "delete",
                "retention.ms": "-1",
                "retention.bytes": "-1",
            }
        (line,) = [text for text in caplog.messages if "keep every record" in text]
        assert "small-seg (compacted until now)" in line
        assert all(topic in line for topic in USER_TOPICS)
        assert "__consumer_offsets" not in line
        assert re.search("tidelog adopt", line)


def test_a_topic_that_got_settings_is_no_longer_named(kafka_directory: Path, caplog: pytest.LogCaptureFixture) -> None:
    with Inside(kafka_directory):
        pass
    store = EmbeddedStore(str(kafka_directory / METADATA_FILE_NAME))
    store.set("/config/topics/plain", b'{"version":1,"config":{"retention.ms":"3600000"}}')
    store.close()
    caplog.clear()
    with caplog.at_level(logging.WARNING), Inside(kafka_directory) as inside:
        assert overrides(inside, "plain") == {"retention.ms": "3600000"}
    (line,) = [text for text in caplog.messages if "keep every record" in text]
    assert "plain" not in line
    assert "small-seg" in line


def test_settings_that_are_there_before_the_first_start_are_used(kafka_directory: Path) -> None:
    store = EmbeddedStore(str(kafka_directory / METADATA_FILE_NAME))
    for path in ("/config", "/config/topics", "/config/topics/plain"):
        store.create(path)
    store.set("/config/topics/plain", b'{"version":1,"config":{"cleanup.policy":"compact"}}')
    store.close()
    with Inside(kafka_directory) as inside:
        assert overrides(inside, "plain") == {"cleanup.policy": "compact"}
        assert tuple(inside.node.log_manager.logs_of("plain")[0].config.cleanup_policy) == ("compact",)
        assert overrides(inside, "small-seg")["retention.ms"] == "-1"


def test_a_topic_older_than_topic_ids_gets_one(kafka_directory: Path) -> None:
    for path in kafka_directory.glob("plain-*/partition.metadata"):
        path.unlink()
    with Inside(kafka_directory) as inside:
        topic = inside.node.image.topic("plain")
        assert topic is not None
        topic_id = topic.topic_id
        assert topic_id != bytes(16)
    with Inside(kafka_directory) as inside:
        topic = inside.node.image.topic("plain")
        assert topic is not None
        assert topic.topic_id == topic_id


def test_a_partition_whose_log_is_gone_is_named(kafka_directory: Path, caplog: pytest.LogCaptureFixture) -> None:
    with Inside(kafka_directory):
        pass
    shutil.rmtree(kafka_directory / "small-seg-0")
    with caplog.at_level(logging.ERROR), Inside(kafka_directory):
        pass
    assert "1 partitions have no log in log.dirs and start empty: small-seg-0" in caplog.text


def test_a_log_that_no_topic_accounts_for_is_named_and_kept(
    kafka_directory: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The tree lost a topic that is on disk: its log is neither served nor deleted."""
    with Inside(kafka_directory):
        pass
    store = EmbeddedStore(str(kafka_directory / METADATA_FILE_NAME))
    for root in ("/brokers/topics/small-seg", "/config/topics/small-seg"):
        for path in subtree(store, root):
            store.delete(path)
    store.close()
    files = sorted(path.name for path in (kafka_directory / "small-seg-0").glob("*.log"))
    with caplog.at_level(logging.ERROR), Inside(kafka_directory, SHORT_RETENTION) as inside:
        inside.on_loop(inside.node.log_manager.housekeeping.delete_old_segments)
        assert inside.node.image.topic("small-seg") is None
        with (
            Admin(bootstrap_servers=f"127.0.0.1:{inside.port}") as admin,
            pytest.raises(ApiError, match="earlier topic"),
        ):
            admin.create_topics([NewTopic("small-seg", 1, 1, {})])
    assert [text for text in caplog.messages if "small-seg-0" in text and "adopt --orphans" in text]
    assert sorted(path.name for path in (kafka_directory / "small-seg-0").glob("*.log")) == files
    assert LogDirectory(str(kafka_directory)).has_clean_shutdown_marker()
