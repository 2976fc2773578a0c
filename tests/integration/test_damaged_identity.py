"""A broker whose `meta.properties` was damaged or deleted between two starts: it does not become another broker."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.raw_client import RawClient, batch_of, describe_topic, fetch_records, produce
from tidelog.testing import Broker, BrokerFailed
from tidelog.wire.errors import ErrorCode


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """Two log directories with a partition each."""
    with two_directories(tmp_path) as broker:
        broker.create_topic("orders", 2)
        with RawClient(broker.port) as client:
            for partition in range(2):
                assert produce(client, "orders", partition, batch_of([b"kept"])).error_code == ErrorCode.NONE
    return tmp_path


def two_directories(home: Path) -> Broker:
    return Broker({"log.dirs": f"{home / 'first'},{home / 'second'}"}, process=True, data_dir=home)


def damage(path: Path) -> None:
    path.write_bytes(path.read_bytes().replace(b"version=0", b"version=8"))


def test_one_damaged_directory_is_offline_and_the_other_is_served(home: Path) -> None:
    damage(home / "second" / "meta.properties")
    (offline,) = [int(path.name[-1]) for path in (home / "second").glob("orders-*")]
    with two_directories(home) as broker, RawClient(broker.port) as client:
        assert f"log directory {home / 'second'} is offline" in broker.logs
        topic = describe_topic(client, "orders")
        assert [bool(partition.offline_replicas) for partition in topic.partitions] == [
            index == offline for index in range(2)
        ]
        assert fetch_records(client, "orders", 1 - offline)[0].value == b"kept"
        assert produce(client, "orders", offline, batch_of([b"no"])).error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert b"version=8" in (home / "second" / "meta.properties").read_bytes()


@pytest.mark.parametrize("how", ["damaged", "deleted"])
def test_a_broker_without_identity_does_not_start_and_says_what_to_write(home: Path, how: str) -> None:
    before = (home / "first" / "meta.properties").read_text()
    for name in ("first", "second"):
        path = home / name / "meta.properties"
        damage(path) if how == "damaged" else path.unlink()
    with pytest.raises(BrokerFailed, match=r"broker\.id=1001 and cluster\.id="):
        two_directories(home).start()
    for name in ("first", "second"):
        (home / name / "meta.properties").write_text(before)
    with two_directories(home) as broker, RawClient(broker.port) as client:
        assert [fetch_records(client, "orders", partition)[0].value for partition in range(2)] == [b"kept"] * 2
