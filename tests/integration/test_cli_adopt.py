"""`tidelog adopt`: settings that are entered before the first start hold from the first start on."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import pytest

from tests.integration.cli_support import run
from tests.integration.inside import Inside
from tests.integration.raw_client import RawClient, fetch_records
from tests.unit.storage._logs import unpack_kafka_directory
from tidelog.metadata.embedded import METADATA_FILE_NAME, EmbeddedStore
from tidelog.metadata.walk import subtree
from tidelog.testing import Broker

KEPT = {"cleanup.policy": "delete", "retention.ms": "-1", "retention.bytes": "-1"}


@pytest.fixture
def kafka_directory(tmp_path: Path) -> Path:
    return unpack_kafka_directory(tmp_path)


def overrides(inside: Inside, topic: str) -> dict[str, str]:
    return inside.on_loop(lambda: dict(inside.node.image.overrides(topic)))


def test_settings_that_are_given_hold_from_the_first_start(
    kafka_directory: Path, caplog: pytest.LogCaptureFixture
) -> None:
    given = ("plain:retention.ms=5000", "small-seg:cleanup.policy=compact", "with.dots_and-dashes-7:retention.ms=-1")
    done = run("adopt", str(kafka_directory), *(word for each in given for word in ("--topic-config", each)))
    assert done.code == 0, done.err
    assert "1 topics keep all records" in done.out
    with caplog.at_level(logging.WARNING), Inside(kafka_directory) as inside:
        assert overrides(inside, "plain") == {**KEPT, "retention.ms": "5000"}
        assert overrides(inside, "small-seg") == {**KEPT, "cleanup.policy": "compact"}
        assert overrides(inside, "txn-topic") == overrides(inside, "with.dots_and-dashes-7") == KEPT
        assert overrides(inside, "__consumer_offsets")["cleanup.policy"] == "compact"
    (line,) = [text for text in caplog.messages if "keep every record" in text]
    assert line.startswith("1 adopted topics keep")
    assert "txn-topic" in line


def test_settings_can_be_given_after_the_first_start_too(
    kafka_directory: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Also the very settings that adoption chose: then they are chosen, and no start warns about them."""
    with Inside(kafka_directory):
        pass
    done = run("adopt", str(kafka_directory), "--topic-config", "plain:retention.ms=-1", "--format", "json")
    assert done.code == 0, done.err
    said = {one["topic"]: one for one in json.loads(done.out)}
    assert said["plain"]["is_known"]
    assert not said["small-seg"]["is_known"]
    caplog.clear()
    with caplog.at_level(logging.WARNING), Inside(kafka_directory) as inside:
        assert overrides(inside, "plain") == KEPT
    (line,) = [text for text in caplog.messages if "keep every record" in text]
    assert "plain" not in line
    assert "small-seg" in line


def test_settings_are_read_from_brokers_that_are_up(kafka_directory: Path, tmp_path: Path) -> None:
    """With what the brokers have as defaults: those of the new broker may be others."""
    with Broker({"log.retention.hours": 3}, data_dir=tmp_path / "other") as other:
        other.create_topic("plain", config={"cleanup.policy": "compact", "segment.bytes": 5_000_000})
        other.create_topic("small-seg", config={"min.insync.replicas": 2})
        done = run("adopt", str(kafka_directory), "--bootstrap-server", other.bootstrap_servers)
    assert done.code == 0, done.err
    with Inside(kafka_directory) as inside:
        assert overrides(inside, "plain") == {
            "cleanup.policy": "compact",
            "segment.bytes": "5000000",
            "retention.ms": "10800000",
        }
        assert overrides(inside, "small-seg") == {"retention.ms": "10800000", "min.insync.replicas": "1"}
        assert overrides(inside, "txn-topic") == KEPT


def test_orphans_are_adopted_when_asked_for(kafka_directory: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A topic and a partition that the tree has lost are served again, under their ids."""
    with Inside(kafka_directory) as inside:
        topic = inside.node.image.topic("small-seg")
        assert topic is not None
        topic_id = topic.topic_id
        with RawClient(inside.port) as client:
            records = fetch_records(client, "small-seg", 0)
    store = EmbeddedStore(str(kafka_directory / METADATA_FILE_NAME))
    for root in ("/brokers/topics/small-seg", "/config/topics/small-seg", "/brokers/topics/plain/partitions/2"):
        for path in subtree(store, root):
            store.delete(path)
    data, _ = store.get("/brokers/topics/plain")
    plain = json.loads(data)
    del plain["partitions"]["2"]
    store.set("/brokers/topics/plain", json.dumps(plain).encode())
    store.close()
    with caplog.at_level(logging.ERROR), Inside(kafka_directory):
        pass
    assert [text for text in caplog.messages if "small-seg-0" in text and "plain-2" in text]
    assert run("adopt", str(kafka_directory), "--orphans").code == 0
    caplog.clear()
    with caplog.at_level(logging.ERROR), Inside(kafka_directory) as inside:
        assert caplog.messages == []
        topic = inside.node.image.topic("small-seg")
        assert topic is not None
        assert topic.topic_id == topic_id
        assert overrides(inside, "small-seg") == KEPT
        with RawClient(inside.port) as client:
            assert fetch_records(client, "small-seg", 0) == records
            assert fetch_records(client, "plain", 2)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--topic-config", "plain"], "is not TOPIC:NAME=VALUE"),
        (["--topic-config", "nowhere:retention.ms=1"], "no topic nowhere in"),
        (["--topic-config", "plain:retention.ms=soon"], "retention.ms"),
        (["--topic-config", "plain:retention=1"], "retention"),
        (["--zookeeper", "a:1", "--bootstrap-server", "b:1"], "not both"),
        pytest.param(["--zookeeper", "127.0.0.1:1"], "127.0.0.1:1 cannot be read", marks=pytest.mark.long),
        (["--bootstrap-server", "127.0.0.1:1"], "127.0.0.1:1"),
    ],
)
def test_what_cannot_be_used_is_refused(kafka_directory: Path, words: list[str], said: str) -> None:
    done = run("adopt", str(kafka_directory), *words)
    assert done.code == 1
    assert said in done.err
    assert "Traceback" not in done.err


def test_a_directory_in_use_or_without_partitions_is_refused(tmp_path: Path) -> None:
    with Broker(data_dir=tmp_path) as broker:
        done = run("adopt", str(tmp_path))
        assert (done.code, "there are no partitions" in done.err) == (1, True)
        broker.create_topic("orders")
        done = run("adopt", str(tmp_path), "--topic-config", "orders:retention.ms=1")
        assert (done.code, "in use by another process" in done.err) == (1, True)
