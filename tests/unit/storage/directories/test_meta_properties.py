"""`meta.properties`: whose data a log directory holds."""

from pathlib import Path

import pytest

from tidelog.storage.directories.meta_properties import (
    META_PROPERTIES_FILE,
    InconsistentBrokerIdError,
    InconsistentBrokerMetadataError,
    InconsistentClusterIdError,
    MetaProperties,
    MetaPropertiesError,
    agree_on_identity,
    parse_meta_properties,
    read_meta_properties,
    scan_meta_properties,
    write_meta_properties,
)

KAFKAS = b"#\n#Sun Nov 15 10:22:11 UTC 2026\nbroker.id=3\nversion=0\ncluster.id=GhwN6dFrRZC7_SgnIs9scw\n"
KRAFTS = b"version=1\nnode.id=2\ncluster.id=abc\ndirectory.id=8PHy8_T19vf4-fr7_P3-_w\n"


def test_a_file_of_kafka_is_read() -> None:
    assert parse_meta_properties(KAFKAS, "x") == MetaProperties(3, "GhwN6dFrRZC7_SgnIs9scw")


def test_a_file_of_kraft_is_accepted_and_its_directory_id_kept(tmp_path: Path) -> None:
    properties = parse_meta_properties(KRAFTS, "x")
    assert properties == MetaProperties(2, "abc", 1, "8PHy8_T19vf4-fr7_P3-_w")
    write_meta_properties(str(tmp_path), properties)
    assert read_meta_properties(str(tmp_path)) == properties


def test_what_means_nothing_here_survives_a_rewrite(tmp_path: Path) -> None:
    properties = parse_meta_properties(KAFKAS + b"vendor.note=a b\\:c\n", "x")
    write_meta_properties(str(tmp_path), properties)
    again = read_meta_properties(str(tmp_path))
    assert again is not None
    assert again.others == (("vendor.note", "a b:c"),)


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"broker.id=1\n", "version is missing"),
        (b"version=2\n", "version is 2, expected 0 or 1"),
        (b"version=x\n", "version is 'x'"),
        (b"version=0\nbroker.id=one\n", "broker.id is 'one'"),
        (b"version=0\nbroker.id=99999999999\n", "broker.id is '99999999999'"),
        (b"version=1\nnode.id=1\n", "needs both node.id and cluster.id"),
        (b"\xff", "not a properties file"),
    ],
)
def test_a_file_that_cannot_be_understood_is_refused_with_its_name(data: bytes, said: str) -> None:
    with pytest.raises(MetaPropertiesError, match="/data/meta") as caught:
        parse_meta_properties(data, "/data/meta.properties")
    assert said in str(caught.value)


def test_a_scan_sorts_directories_into_found_missing_and_failed(tmp_path: Path) -> None:
    found, missing, failed, blocked = (tmp_path / name for name in ("found", "missing", "failed", "blocked"))
    for directory in (found, missing, failed):
        directory.mkdir()
    blocked.touch()  # a file where the directory should be
    (found / META_PROPERTIES_FILE).write_bytes(KAFKAS)
    (failed / META_PROPERTIES_FILE).write_bytes(b"version=7\n")
    scan = scan_meta_properties(map(str, (found, missing, failed, blocked, tmp_path / "not-yet")))
    assert list(scan.found) == [str(found)]
    assert scan.missing == [str(missing), str(tmp_path / "not-yet")]
    assert list(scan.failed) == [str(failed), str(blocked)]


def test_identity_comes_from_the_files_where_nothing_else_says_it() -> None:
    found = {"/a": MetaProperties(3, "cluster"), "/b": MetaProperties(-1, None)}
    assert agree_on_identity(found) == MetaProperties(3, "cluster")
    assert agree_on_identity({}) == MetaProperties(-1, None)
    assert agree_on_identity({}, cluster_id="new", broker_id=5) == MetaProperties(5, "new")
    assert agree_on_identity(found, cluster_id="cluster", broker_id=3) == MetaProperties(3, "cluster")


@pytest.mark.parametrize("other", [MetaProperties(4, "cluster"), MetaProperties(3, "another")])
def test_directories_that_disagree_are_refused(other: MetaProperties) -> None:
    with pytest.raises(InconsistentBrokerMetadataError, match=r"/a: broker\.id 3, cluster\.id cluster; /b: "):
        agree_on_identity({"/a": MetaProperties(3, "cluster"), "/b": other})


def test_directories_of_another_cluster_are_refused() -> None:
    with pytest.raises(InconsistentClusterIdError, match=r"cluster\.id mine, but .* in /a says theirs"):
        agree_on_identity({"/a": MetaProperties(3, "theirs")}, cluster_id="mine")


def test_directories_of_another_broker_are_refused() -> None:
    with pytest.raises(InconsistentBrokerIdError, match=r"broker\.id 1, but .* in /a says 3\. .* set broker\.id=3"):
        agree_on_identity({"/a": MetaProperties(3, "cluster")}, cluster_id="cluster", broker_id=1)
