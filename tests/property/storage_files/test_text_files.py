"""The parsers of small text files: what we write is read back, and no bytes raise anything but the declared error."""

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.property.effort import examples
from tidelog.storage.checkpoints import CheckpointError, format_offset_checkpoint, parse_offset_checkpoint
from tidelog.storage.directories.log_directory import DirectoryNameError, parse_directory_name
from tidelog.storage.directories.meta_properties import (
    MetaProperties,
    MetaPropertiesError,
    format_meta_properties,
    parse_meta_properties,
)
from tidelog.storage.partition_metadata import (
    PartitionMetadataError,
    format_partition_metadata,
    format_uuid,
    parse_partition_metadata,
    parse_uuid,
)

modest = settings(deadline=None, max_examples=examples(80))

topics = st.text("abcXYZ019._-", min_size=1, max_size=30)
partitions = st.integers(0, 2**31 - 1)
offsets = st.integers(-1, 2**63 - 1)
checkpoints = st.dictionaries(st.tuples(topics, partitions), offsets, max_size=8)
identifiers = st.binary(min_size=16, max_size=16).filter(any)
words = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=12)


def mutated(draw: Callable[[st.SearchStrategy[Any]], Any], data: bytes) -> bytes:
    """`data` with a stretch of it replaced: close enough to the format to get past its first checks."""
    start = draw(st.integers(0, len(data)))
    end = draw(st.integers(start, len(data)))
    inserted: bytes = draw(st.binary(max_size=6))
    return data[:start] + inserted + data[end:]


@modest
@given(checkpoints)
def test_checkpoints_are_read_back(offsets: dict[tuple[str, int], int]) -> None:
    assert parse_offset_checkpoint(format_offset_checkpoint(offsets), "x") == offsets


@modest
@given(st.data())
def test_no_bytes_harm_the_checkpoint_parser(data: st.DataObject) -> None:
    text = format_offset_checkpoint(data.draw(checkpoints))
    with suppress(CheckpointError):
        parse_offset_checkpoint(mutated(data.draw, text), "x")


@modest
@given(identifiers)
def test_topic_ids_are_read_back(identifier: bytes) -> None:
    assert parse_partition_metadata(format_partition_metadata(identifier), "x") == identifier
    assert parse_uuid(format_uuid(identifier).encode()) == identifier


@modest
@given(st.data())
def test_no_bytes_harm_the_partition_metadata_parser(data: st.DataObject) -> None:
    try:
        parsed = parse_partition_metadata(mutated(data.draw, format_partition_metadata(data.draw(identifiers))), "x")
    except PartitionMetadataError:
        return
    assert len(parsed) == 16


meta_properties = st.builds(
    MetaProperties,
    broker_id=st.integers(0, 2**31 - 1),
    cluster_id=words,
    version=st.sampled_from([0, 1]),
    directory_id=st.none() | words,
    others=st.dictionaries(words.map("x.".__add__), words, max_size=3).map(lambda fields: tuple(fields.items())),
)


@modest
@given(meta_properties)
def test_meta_properties_are_read_back(properties: MetaProperties) -> None:
    assert parse_meta_properties(format_meta_properties(properties), "x") == properties


@modest
@given(st.data())
def test_no_bytes_harm_the_meta_properties_parser(data: st.DataObject) -> None:
    text = format_meta_properties(data.draw(meta_properties))
    with suppress(MetaPropertiesError):
        parse_meta_properties(mutated(data.draw, text), "x")


@modest
@given(topics, partitions)
def test_directory_names_are_read_back(topic: str, partition: int) -> None:
    parsed = parse_directory_name(f"{topic}-{partition}")
    assert parsed.topic_partition == (topic, partition)


@modest
@given(st.text(max_size=20))
def test_no_name_harms_the_directory_name_parser(name: str) -> None:
    try:
        parsed = parse_directory_name(name)
    except DirectoryNameError:
        return
    assert parsed.name == name


@pytest.mark.parametrize("name", ["a-0.b-delete", "a-0.-delete"])
def test_a_unique_part_is_needed_before_a_suffix(name: str) -> None:
    if ".b" in name:
        assert parse_directory_name(name).topic == "a"
    else:
        with pytest.raises(DirectoryNameError):
            parse_directory_name(name)
