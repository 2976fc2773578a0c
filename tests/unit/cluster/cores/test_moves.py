"""Partitions move to other cores by rename, whatever step a crash interrupts."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog.cluster.cores.layout import directory_of
from tidelog.cluster.cores.moves import journal_path, needs_settling, plan_moves, settle, spread
from tidelog.config import load_broker_config
from tidelog.metadata import paths
from tidelog.metadata.registration import prepare_tree
from tidelog.metadata.store import Create
from tidelog.metadata.topics import NewTopic, write_topic
from tidelog.metadata.tree import (
    NO_LEADER,
    PartitionState,
    decode_partition_state,
    decode_topic,
    encode_controller,
)
from tidelog.storage.directories.log_directory import LogDirectory
from tidelog.storage.directories.meta_properties import MetaProperties, write_meta_properties
from tidelog.storage.errors import StorageError
from tidelog.testing.memory_store import MemoryTree

placements = st.dictionaries(st.tuples(st.sampled_from("abcdef"), st.integers(0, 9)), st.integers(1, 6))


@given(placed=placements, count=st.integers(1, 6))
def test_every_topic_and_all_of_them_are_spread_evenly(placed, count):
    targets = spread(placed, range(1, count + 1))
    after = placed | targets
    assert set(after.values()) <= set(range(1, count + 1))
    for topic in {topic for topic, _ in placed}:
        held = Counter(dict.fromkeys(range(1, count + 1), 0))
        held.update(core for (name, _), core in after.items() if name == topic)
        assert max(held.values()) - min(held.values()) <= 1
    held = Counter(dict.fromkeys(range(1, count + 1), 0))
    held.update(after.values())
    assert max(held.values()) - min(held.values()) <= 1
    assert not spread(after, range(1, count + 1))


def test_what_is_spread_already_stays():
    assert spread({("a", 0): 2, ("a", 1): 1, ("b", 0): 1, ("b", 1): 2}, [1, 2]) == {}


class Crash(BaseException):
    """The process ends here."""


IDS = {1: 7, 2: 1001, 3: 1002}


@pytest.fixture
def machine(tmp_path):
    """Six partitions of a topic, all on core 1, and two empty cores."""
    config = load_broker_config({"log.dirs": str(tmp_path), "broker.id": "7", "tidelog.cores": "3"})
    for core, broker_id in IDS.items():
        directory = LogDirectory(directory_of(str(tmp_path), core))
        directory.create()
        write_meta_properties(directory.path, MetaProperties(broker_id, "cluster"))
        directory.write_clean_shutdown_marker()
    for index in range(6):
        (tmp_path / f"t-{index}").mkdir()
        (tmp_path / f"t-{index}" / "records").write_text(str(index), encoding="ascii")
    first = LogDirectory(str(tmp_path))
    for file in (first.recovery_points, first.high_watermarks, first.start_offsets, first.clean_points):
        file.write({("t", index): 10 + index for index in range(6)})
    ensemble = MemoryTree()
    store = ensemble.connect()
    prepare_tree(store)
    replicas = ((7,),) * 6
    states = tuple(PartitionState(7 if index else NO_LEADER, 3, (7,), 1) for index in range(6))
    write_topic(store, NewTopic("t", bytes(15) + b"1", replicas, states, {}))
    return config, ensemble


def held(config, ensemble):
    """The core of each partition by the directories, checked against the tree and the checkpoints."""
    store = ensemble.connect()
    assignments = decode_topic("t", store.get(paths.topic("t"))[0]).partitions
    found = {}
    for core, broker_id in IDS.items():
        directory = LogDirectory(directory_of(config.log_dirs[0], core))
        for each in directory.partitions():
            index = each.partition
            found[index] = core
            assert assignments[index].replicas == (broker_id,)
            state = decode_partition_state("t", index, store.get(paths.partition_state("t", index))[0])
            assert state.isr == (broker_id,)
            if core != 1:
                assert (state.leader, state.leader_epoch) == (broker_id, 4)
            with open(f"{directory.path}/{each.name}/records", encoding="ascii") as file:
                assert file.read() == str(index)
            for checkpoint in (directory.recovery_points, directory.high_watermarks, directory.start_offsets):
                assert checkpoint.read()["t", index] == 10 + index
        assert len(directory.recovery_points.read()) == list(found.values()).count(core)
    assert sorted(found) == list(range(6))
    return found


def test_directories_checkpoints_and_the_tree_move_together(machine):
    config, ensemble = machine
    assert settle(config, 3, ensemble.connect, balance=True) == 4
    assert Counter(held(config, ensemble).values()) == {1: 2, 2: 2, 3: 2}
    assert not needs_settling(config, 3)
    assert settle(config, 3, ensemble.connect, balance=True) == 0


def places(machine):
    config, ensemble = machine
    reached: list[str] = []
    settle(config, 3, ensemble.connect, balance=True, reach=reached.append)
    return reached


@pytest.mark.parametrize("step", range(11))
def test_moves_that_a_crash_interrupts_are_finished_by_the_next_start(machine, step):
    config, ensemble = machine
    reached = 0

    def crash(_place):
        nonlocal reached
        reached += 1
        if reached > step:
            raise Crash

    with pytest.raises(Crash):
        settle(config, 3, ensemble.connect, balance=True, reach=crash)
    assert needs_settling(config, 3)
    settle(config, 3, ensemble.connect)
    assert Counter(held(config, ensemble).values()) == {1: 2, 2: 2, 3: 2}
    assert not needs_settling(config, 3)


def test_there_are_as_many_steps_as_are_tried(machine):
    assert len(places(machine)) == 11


def test_what_comes_from_a_core_that_crashed_is_recovered_where_it_arrives(machine):
    config, ensemble = machine
    LogDirectory(config.log_dirs[0]).take_clean_shutdown_marker()
    settle(config, 3, ensemble.connect, balance=True)
    assert not LogDirectory(directory_of(config.log_dirs[0], 2)).has_clean_shutdown_marker()


def test_one_core_takes_everything_back_and_leads_it(machine, tmp_path):
    config, ensemble = machine
    settle(config, 3, ensemble.connect, balance=True)
    settle(config, 1, ensemble.connect)
    assert not (tmp_path / ".cores").exists()
    store = ensemble.connect()
    for index in range(6):
        state = decode_partition_state("t", index, store.get(paths.partition_state("t", index))[0])
        assert (state.leader, state.isr) == (7, (7,))
    assert not needs_settling(config, 1)


def test_fewer_cores_keep_what_they_have(machine):
    config, ensemble = machine
    settle(config, 3, ensemble.connect, balance=True)
    before = held(config, ensemble)
    settle(config, 2, ensemble.connect)
    after = {each.partition: 2 for each in LogDirectory(directory_of(config.log_dirs[0], 2)).partitions()}
    assert len(after) == 3
    assert {index for index, core in before.items() if core == 2} < after.keys()


def test_a_controller_elsewhere_is_made_to_read_the_tree(machine):
    _, ensemble = machine
    config = load_broker_config({**machine[0].originals, "zookeeper.connect": "zk:2181"})
    ensemble.connect().multi([Create(paths.CONTROLLER, encode_controller(9, 0))])
    settle(config, 3, ensemble.connect, balance=True)
    assert ensemble.connect().exists(paths.CONTROLLER) is None


def test_two_replicas_of_a_partition_on_one_machine_stay(machine, tmp_path):
    config, _ = machine
    for index in range(6):
        (tmp_path / ".cores" / "2" / f"t-{index}").mkdir()
    assert plan_moves(config, 3, balance=True) == []


def test_a_journal_that_cannot_be_read_stops_the_start(machine):
    config, ensemble = machine
    with open(journal_path(config), "w", encoding="ascii") as file:
        file.write("{")
    with pytest.raises(StorageError, match=r"moves\.json"):
        settle(config, 3, ensemble.connect)
