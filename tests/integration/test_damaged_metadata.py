"""One flipped bit in the metadata's write-ahead log after a crash: every acknowledged topic is there, or is named."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.integration.raw_client import RawClient, batch_of, fetch_records, new_producer_id, produce
from tidelog.metadata.embedded import METADATA_FILE_NAME
from tidelog.testing import Broker
from tidelog.wire.errors import ErrorCode

TOPICS = [f"topic-{number}" for number in range(8)]


@pytest.fixture(scope="module")
def crashed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, int]:
    """The data of a broker that was killed, with some topics, and a producer id that it had allocated."""
    home = tmp_path_factory.mktemp("crashed")
    with Broker(process=True, data_dir=home) as broker:
        for topic in TOPICS:
            broker.create_topic(topic, 2, config={"retention.ms": 1_000_000_000_000})
        with RawClient(broker.port) as client:
            producer = new_producer_id(client)
            for topic in TOPICS:
                batch = batch_of([topic.encode()], producer=(*producer, 0))
                assert produce(client, topic, 1, batch).error_code == ErrorCode.NONE
        broker.kill()
    return home, producer[0]


def flip_a_bit(home: Path, fraction: float) -> None:
    log = home / f"{METADATA_FILE_NAME}-wal"
    data = bytearray(log.read_bytes())
    data[int(len(data) * fraction)] ^= 16
    log.write_bytes(data)


@pytest.mark.parametrize("fraction", [0.0, 0.3, 0.8])
def test_every_topic_is_there_with_its_settings(crashed: tuple[Path, int], tmp_path: Path, fraction: float) -> None:
    home, producer_id = tmp_path / "data", crashed[1]
    shutil.copytree(crashed[0], home)
    flip_a_bit(home, fraction)
    with Broker(process=True, data_dir=home) as broker, RawClient(broker.port) as client:
        assert "they are restored" in broker.logs
        assert "accounts for none" not in broker.logs
        for topic in TOPICS:
            assert fetch_records(client, topic, 1)[0].value == topic.encode()
        assert new_producer_id(client)[0] > producer_id
    with Broker(process=True, data_dir=home) as broker:
        assert "restored" not in broker.logs
