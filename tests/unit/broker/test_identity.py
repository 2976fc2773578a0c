"""Who a broker is when files are damaged, missing or foreign: never silently another one."""

import logging
from pathlib import Path

import pytest

from tidelog.broker.identity import ForeignDirectoryError, establish_broker_id, establish_cluster_id
from tidelog.config import load_broker_config
from tidelog.metadata.image import ClusterImage, PartitionImage, TopicImage
from tidelog.metadata.registration import prepare_tree
from tidelog.metadata.topics import NewTopic, write_topic
from tidelog.metadata.tree import PartitionState
from tidelog.storage.directories.meta_properties import (
    InconsistentBrokerMetadataError,
    InconsistentClusterIdError,
    MetaPropertiesError,
    scan_meta_properties,
)
from tidelog.testing.memory_store import MemoryStore

CLUSTER = "MAL-Qz76RZ67HEy9I-3i1w"
OWNER = 1001


class Directories:
    """Log directories, and a tree whose only topic belongs to `OWNER`."""

    def __init__(self, home: Path, count: int = 2, *, has_topics: bool = True) -> None:
        self.paths = [home / str(number) for number in range(count)]
        self.store = MemoryStore()
        self.image = ClusterImage(CLUSTER)
        prepare_tree(self.store)
        for path in self.paths:
            (path / "orders-0").mkdir(parents=True)
            self.write(path)
        if has_topics:
            establish_cluster_id(self.store, scan_meta_properties(self._names()))
            state = PartitionState(OWNER, 0, (OWNER,), 1)
            write_topic(self.store, NewTopic("orders", bytes(range(16)), ((OWNER,),), (state,), {}))
            self.image.set_topic(
                TopicImage("orders", bytes(range(16)), [PartitionImage(0, OWNER, 0, (OWNER,), (OWNER,))])
            )

    def write(self, path: Path, broker_id: int = OWNER, cluster_id: str = CLUSTER) -> None:
        (path / "meta.properties").write_text(f"version=0\nbroker.id={broker_id}\ncluster.id={cluster_id}\n")

    def damage(self, *numbers: int) -> None:
        for number in numbers:
            (self.paths[number] / "meta.properties").write_bytes(b"versioo=0\nbroker.id=1001\n")

    def remove(self, *numbers: int) -> None:
        for number in numbers:
            (self.paths[number] / "meta.properties").unlink()

    def _names(self) -> list[str]:
        return list(map(str, self.paths))

    def establish(self, **settings: object) -> tuple[str, int]:
        scan = scan_meta_properties(self._names())
        cluster_id = establish_cluster_id(self.store, scan)
        config = load_broker_config({name.replace("_", "."): str(value) for name, value in settings.items()})
        return cluster_id, establish_broker_id(self.store, scan, config, cluster_id, self.image)


def test_whole_files_say_who_the_broker_is(tmp_path: Path) -> None:
    assert Directories(tmp_path).establish() == (CLUSTER, OWNER)


def test_one_damaged_directory_leaves_the_identity_to_the_others(tmp_path: Path) -> None:
    directories = Directories(tmp_path)
    directories.damage(1)
    assert directories.establish() == (CLUSTER, OWNER)
    assert (directories.paths[1] / "meta.properties").read_bytes().startswith(b"versioo"), "left as it was found"


def test_all_damaged_directories_are_refused_with_what_to_write(tmp_path: Path) -> None:
    directories = Directories(tmp_path)
    directories.damage(0, 1)
    with pytest.raises(MetaPropertiesError, match=f"broker.id=1001 and cluster.id={CLUSTER}") as raised:
        directories.establish()
    assert str(directories.paths[0]) in str(raised.value)


def test_a_damaged_directory_beside_an_empty_one_is_refused(tmp_path: Path) -> None:
    """Otherwise the empty one would become a new broker of a new cluster."""
    directories = Directories(tmp_path, has_topics=False)
    directories.damage(0)
    directories.remove(1)
    with pytest.raises(MetaPropertiesError, match="no log directory says which broker it belongs to"):
        directories.establish()
    assert not (directories.paths[1] / "meta.properties").exists()


def test_a_deleted_file_is_written_again_where_another_directory_says_who_this_is(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    directories = Directories(tmp_path)
    directories.remove(1)
    with caplog.at_level(logging.WARNING):
        assert directories.establish() == (CLUSTER, OWNER)
    assert f"broker.id={OWNER}" in (directories.paths[1] / "meta.properties").read_text()
    assert "though it holds 1 partitions" in caplog.text


def test_deleted_files_do_not_make_another_broker(tmp_path: Path) -> None:
    directories = Directories(tmp_path)
    directories.remove(0, 1)
    with pytest.raises(ForeignDirectoryError, match=f"broker.id=1001 and cluster.id={CLUSTER}"):
        directories.establish()
    assert not (directories.paths[0] / "meta.properties").exists()
    assert directories.store.get("/brokers/seqid")[1].version == 0, "no broker id was generated"


def test_deleted_files_are_written_again_where_the_configuration_names_the_owner(tmp_path: Path) -> None:
    directories = Directories(tmp_path)
    directories.remove(0, 1)
    scan = scan_meta_properties([str(path) for path in directories.paths])
    config = load_broker_config({"broker.id": str(OWNER), "reserved.broker.max.id": "2000"})
    assert establish_broker_id(directories.store, scan, config, CLUSTER, directories.image) == OWNER
    assert f"broker.id={OWNER}" in (directories.paths[0] / "meta.properties").read_text()


@pytest.mark.parametrize("has_file", [True, False])
def test_an_id_that_owns_nothing_is_refused(tmp_path: Path, has_file: bool) -> None:
    """One changed digit of broker.id is a valid file, too."""
    directories = Directories(tmp_path, 1)
    if has_file:
        directories.write(directories.paths[0], broker_id=1002)
    else:
        directories.remove(0)
    with pytest.raises(ForeignDirectoryError, match="every partition belongs to broker 1001"):
        directories.establish(**({} if has_file else {"broker_id": 7}))


def test_directories_of_two_clusters_are_refused(tmp_path: Path) -> None:
    directories = Directories(tmp_path)
    directories.write(directories.paths[1], cluster_id="another")
    with pytest.raises(InconsistentBrokerMetadataError, match="another"):
        directories.establish()


def test_directories_of_another_cluster_than_the_metadata_are_refused(tmp_path: Path) -> None:
    directories = Directories(tmp_path, 1)
    directories.write(directories.paths[0], cluster_id="another")
    with pytest.raises(InconsistentClusterIdError, match="another"):
        directories.establish()


def test_a_new_broker_generates_its_id(tmp_path: Path) -> None:
    directories = Directories(tmp_path, has_topics=False)
    directories.remove(0, 1)
    cluster_id, broker_id = directories.establish()
    assert (len(cluster_id), broker_id) == (22, 1001)
    assert f"cluster.id={cluster_id}" in (directories.paths[1] / "meta.properties").read_text()
