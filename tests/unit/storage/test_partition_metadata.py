"""`partition.metadata`: the topic id of a partition directory."""

from pathlib import Path

import pytest

from tidelog.storage.partition_metadata import (
    PARTITION_METADATA_FILE,
    PartitionMetadataError,
    format_uuid,
    parse_partition_metadata,
    parse_uuid,
    read_partition_metadata,
    write_partition_metadata,
)

TOPIC_ID = bytes(range(240, 256))


def test_a_file_of_kafka_is_read_and_ours_has_the_same_bytes(tmp_path: Path) -> None:
    kafkas = b"version: 0\ntopic_id: WWHmdO-jSXKyyyuyL2xmrg"
    topic_id = parse_partition_metadata(kafkas, "x")
    assert len(topic_id) == 16
    write_partition_metadata(str(tmp_path), topic_id)
    assert (tmp_path / PARTITION_METADATA_FILE).read_bytes() == kafkas
    assert read_partition_metadata(str(tmp_path)) == topic_id


def test_a_directory_without_the_file_has_no_id(tmp_path: Path) -> None:
    assert read_partition_metadata(str(tmp_path)) is None


def test_ids_are_url_safe_base64_without_padding() -> None:
    assert format_uuid(TOPIC_ID) == "8PHy8_T19vf4-fr7_P3-_w"
    assert parse_uuid(b"8PHy8_T19vf4-fr7_P3-_w") == TOPIC_ID
    assert parse_uuid(b"8PHy8_T19vf4-fr7_P3-_w==") == TOPIC_ID
    assert parse_uuid(b"8PHy8/T19vf4+fr7/P3+/w") is None
    assert parse_uuid(b"short") is None


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "version is missing"),
        (b"version: 1\ntopic_id: WWHmdO-jSXKyyyuyL2xmrg", "version is b'1'"),
        (b"version: 0\n", "topic_id is missing"),
        (b"version: 0\ntopic_id: nonsense", "topic_id is b'nonsense'"),
        (b"version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAA", "expected 22 characters"),
        (b"version 0", "is not `name: value`"),
    ],
)
def test_a_malformed_file_is_refused_with_its_name(data: bytes, said: str) -> None:
    with pytest.raises(PartitionMetadataError, match="/data/t-0") as caught:
        parse_partition_metadata(data, "/data/t-0/partition.metadata")
    assert said in str(caught.value)
