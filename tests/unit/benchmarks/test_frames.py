"""The hand-written frames say what they mean: an independent decoder reads them."""

import struct
from importlib import import_module
from typing import Any

import pytest
from kio.schema.create_topics.v7.request import CreateTopicsRequest
from kio.schema.delete_topics.v6.request import DeleteTopicsRequest
from kio.schema.fetch.v17.request import FetchRequest
from kio.schema.list_offsets.v7.request import ListOffsetsRequest
from kio.schema.metadata.v12.request import MetadataRequest
from kio.schema.produce.v11.request import ProduceRequest
from kio.serial import entity_reader

from benchmarks import frames
from benchmarks.frames import FetchLimits
from tidelog.records.batch import iterate_records
from tidelog.records.header import check_crc, read_header

TOPIC_ID = bytes(range(16))


def decoded(frame: bytes, message: Any) -> Any:
    """The body of a frame, read to its last byte by kio."""
    length, api_key, version = struct.unpack_from(">ihh", frame)
    assert length == len(frame) - 4
    assert (api_key, version) == (message.__api_key__, message.__version__)
    body = frame[4 + 10 + len(frames.CLIENT_ID) + message.__flexible__ :]
    found, read = entity_reader(message)(memoryview(body), 0)
    assert read == len(body)
    return found


def test_produce_carries_one_batch_to_one_partition() -> None:
    records = frames.batch([b"a", b"b"])
    request = decoded(frames.produce("events", 3, records, acks=1), ProduceRequest)
    (topic,) = request.topic_data
    (partition,) = topic.partition_data
    assert (request.acks, topic.name, partition.index, bytes(partition.records)) == (1, "events", 3, records)


def test_fetch_names_each_position_and_the_session() -> None:
    frame = frames.fetch(TOPIC_ID, [(0, 7), (2, 9)], FetchLimits(100, 1, 5_000), (42, 3))
    request = decoded(frame, FetchRequest)
    (topic,) = request.topics
    assert topic.topic_id.bytes == TOPIC_ID
    assert [(part.partition, part.fetch_offset) for part in topic.partitions] == [(0, 7), (2, 9)]
    assert (request.session_id, request.session_epoch, request.max_bytes) == (42, 3, 5_000)


@pytest.mark.parametrize("version", [3, 7, 8, 9])
def test_produce_has_older_versions(version: int) -> None:
    records = frames.batch([b"a", b"b"])
    message = import_module(f"kio.schema.produce.v{version}.request").ProduceRequest
    request = decoded(frames.produce("events", 3, records, acks=1, version=version), message)
    (topic,) = request.topic_data
    (partition,) = topic.partition_data
    assert (request.transactional_id, request.acks) == (None, 1)
    assert (topic.name, partition.index, bytes(partition.records)) == ("events", 3, records)


@pytest.mark.parametrize("version", [4, 5, 7, 9, 11])
def test_fetch_has_older_versions(version: int) -> None:
    message = import_module(f"kio.schema.fetch.v{version}.request").FetchRequest
    request = decoded(frames.fetch_by_name("events", 3, 9, FetchLimits(100, 1, 5_000), version), message)
    (topic,) = request.topics
    (partition,) = topic.partitions
    assert (topic.topic, partition.partition, partition.fetch_offset) == ("events", 3, 9)
    assert (request.max_bytes, partition.partition_max_bytes) == (5_000, 5_000)


def test_an_incremental_fetch_names_nothing() -> None:
    request = decoded(frames.fetch(TOPIC_ID, [], FetchLimits(), (42, 3)), FetchRequest)
    assert request.topics == ()


def test_control_requests_name_their_topic() -> None:
    created = decoded(frames.create_topic("events", 5, {"segment.bytes": "1048576"}), CreateTopicsRequest).topics[0]
    assert (created.name, created.num_partitions, created.configs[0].value) == ("events", 5, "1048576")
    assert decoded(frames.delete_topic("events"), DeleteTopicsRequest).topics[0].name == "events"
    described = decoded(frames.metadata(["events"], auto_create=True), MetadataRequest)
    assert (described.topics[0].name, described.allow_auto_topic_creation) == ("events", True)
    listed = decoded(frames.list_offsets("events", [1, 2]), ListOffsetsRequest).topics[0]
    assert [part.partition_index for part in listed.partitions] == [1, 2]


def test_a_batch_is_valid_and_holds_its_values() -> None:
    records = frames.batch([b"first", b"second"], producer=(9, 1, 4))
    header = read_header(records)
    assert check_crc(records, 0, header)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (9, 1, 4)
    assert [record.value for record in iterate_records(records)] == [b"first", b"second"]


def test_a_batch_of_a_size_comes_close_and_never_above() -> None:
    for wanted in (10 << 10, 64 << 10, 100 << 10, 1 << 20):
        size = len(frames.batch_of_bytes(wanted, 1024))
        assert 0.98 * wanted < size <= wanted


def test_a_reader_walks_a_flexible_body() -> None:
    frame = struct.pack(">i", 1) + b"\x00" + b"\x06hello" + b"\x03" + struct.pack(">ii", 7, 8) + b"\x01\x00\x02ab"
    reader = frames.Reader(frame)
    assert (reader.text(), reader.numbers()) == ("hello", [7, 8])
    reader.skip_tags()
