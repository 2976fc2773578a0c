"""A log directory: names, lock, marker."""

from pathlib import Path

import pytest

from tidelog.storage.directories.log_directory import (
    CLEAN_SHUTDOWN_FILE,
    DirectoryLockedError,
    DirectoryNameError,
    LogDirectory,
    PartitionState,
    parse_directory_name,
)

UNIQUE = "0123456789abcdef0123456789abcdef"


@pytest.mark.parametrize(
    ("name", "topic", "partition", "state"),
    [
        ("orders-0", "orders", 0, PartitionState.LIVE),
        ("with.dots_and-dashes-7-12", "with.dots_and-dashes-7", 12, PartitionState.LIVE),
        ("a-delete-3", "a-delete", 3, PartitionState.LIVE),
        (f"orders-0.{UNIQUE}-delete", "orders", 0, PartitionState.DELETED),
        (f"a.b-1.{UNIQUE}-future", "a.b", 1, PartitionState.FUTURE),
        (f"a.b-1.{UNIQUE}-stray", "a.b", 1, PartitionState.STRAY),
    ],
)
def test_a_directory_name_has_topic_partition_and_state(
    name: str, topic: str, partition: int, state: PartitionState
) -> None:
    assert parse_directory_name(name) == (name, topic, partition, state)


@pytest.mark.parametrize(
    "name",
    ["", "lost+found", "-0", "orders-", "orders-x", "orders-²", "orders-99999999999", "orders-0-delete", "a-delete"],
)
def test_a_name_that_is_no_partition_is_refused(name: str) -> None:
    with pytest.raises(DirectoryNameError, match="not in the form topic-partition"):
        parse_directory_name(name, "/data")


def test_partitions_are_listed_without_what_kafka_keeps_beside_them(tmp_path: Path) -> None:
    for name in ("orders-0", "orders-1", "__cluster_metadata-0", "remote-log-index-cache"):
        (tmp_path / name).mkdir()
    (tmp_path / "meta.properties").touch()
    listed = LogDirectory(str(tmp_path)).partitions()
    assert sorted(one.topic_partition for one in listed) == [("orders", 0), ("orders", 1)]


def test_a_missing_directory_is_created(tmp_path: Path) -> None:
    directory = LogDirectory(str(tmp_path / "a" / "b"))
    directory.create()
    assert directory.partitions() == []
    assert directory.space().total_bytes >= directory.space().usable_bytes > 0


def test_a_file_in_the_way_is_an_error_of_the_directory(tmp_path: Path) -> None:
    (tmp_path / "data").touch()
    with pytest.raises(OSError, match="data"):
        LogDirectory(str(tmp_path / "data")).create()


def test_two_brokers_in_one_process_do_not_share_a_directory(tmp_path: Path) -> None:
    first, second = LogDirectory(str(tmp_path)), LogDirectory(f"{tmp_path}/../{tmp_path.name}")
    first.lock()
    with pytest.raises(DirectoryLockedError, match="in this process"):
        second.lock()
    first.unlock()
    second.lock()
    second.unlock()


def test_the_clean_shutdown_marker_is_kafkas_and_is_taken_once(tmp_path: Path) -> None:
    directory = LogDirectory(str(tmp_path))
    assert not directory.take_clean_shutdown_marker()
    directory.write_clean_shutdown_marker()
    assert (tmp_path / CLEAN_SHUTDOWN_FILE).read_bytes() == b'{"version":0,"brokerEpoch":-1}'
    assert directory.take_clean_shutdown_marker()
    assert not directory.take_clean_shutdown_marker()
