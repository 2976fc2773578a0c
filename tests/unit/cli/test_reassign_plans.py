"""Plans of a reassignment are Kafka's JSON; a file that is no plan is refused with what is wrong in it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tidelog.cli._placements import Plan
from tidelog.cli.errors import CommandError
from tidelog.cli.reassign import Reassignment, _throttled_replicas, in_place, plan_document, read_plan
from tidelog.client.aio.admin.types import TopicPartitionReplica
from tidelog.client.types import TopicPartition

PLAN: Plan = {TopicPartition("orders", 0): (1, 2), TopicPartition("orders", 1): (2, 3)}


def test_a_plan_is_read_as_it_was_printed(tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    path.write_text(json.dumps(plan_document(PLAN)))
    assert read_plan(path) == (PLAN, {})


def test_a_plan_of_kafkas_own_tool_is_read(tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    path.write_text(
        '{"version":1,"partitions":[{"topic":"orders","partition":0,"replicas":[1,2],"log_dirs":["any","any"]}]}'
    )
    assert read_plan(path) == ({TopicPartition("orders", 0): (1, 2)}, {})


def test_log_directories_are_read_and_printed_for_the_replicas_that_have_one(tmp_path: Path) -> None:
    log_dirs = {TopicPartitionReplica("orders", 0, 2): "/data/2"}
    document = plan_document(PLAN, log_dirs)
    assert document["partitions"][0]["log_dirs"] == ["any", "/data/2"]
    assert "log_dirs" not in document["partitions"][1]
    path = tmp_path / "plan.json"
    path.write_text(json.dumps(document))
    assert read_plan(path) == (PLAN, log_dirs)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "is not JSON"),
        ("[]", "is not a plan"),
        ('{"partitions": [{"topic": "orders"}]}', "is not a plan"),
        ('{"partitions": []}', "has no partitions"),
        (
            '{"partitions": [{"topic": "t", "partition": 0, "replicas": [1, 2], "log_dirs": ["any"]}]}',
            "t-0 has 2 replicas, 1 log_dirs",
        ),
        ('{"partitions": [{"topic": "t", "partition": 0, "replicas": []}]}', r"t-0 has invalid replicas \[\]"),
        ('{"partitions": [{"topic": "t", "partition": 0, "replicas": [1, 1]}]}', r"t-0 has invalid replicas \[1, 1\]"),
    ],
)
def test_what_is_no_plan_is_refused(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "plan.json"
    path.write_text(text)
    with pytest.raises(CommandError, match=said):
        read_plan(path)


def test_a_partition_that_is_named_twice_is_refused(tmp_path: Path) -> None:
    entry = {"topic": "t", "partition": 0, "replicas": [1]}
    path = tmp_path / "plan.json"
    path.write_text(json.dumps({"partitions": [entry, entry]}))
    with pytest.raises(CommandError, match="names t-0 twice"):
        read_plan(path)


def test_old_replicas_are_throttled_as_leaders_and_new_ones_as_followers() -> None:
    current: dict[TopicPartition, tuple[int, ...]] = {TopicPartition("t", 0): (1, 2)}
    target: dict[TopicPartition, tuple[int, ...]] = {TopicPartition("t", 0): (2, 3)}
    assert _throttled_replicas("t", current, target) == (["0:1", "0:2"], ["0:3"])


def test_a_partition_is_in_place_with_its_replicas_in_their_directories() -> None:
    replica = TopicPartitionReplica("orders", 1, 2)
    wanted = Reassignment(PLAN, {replica: "/data/2"})
    first, second = PLAN
    assert in_place(wanted, {}, {}) == set()
    assert in_place(wanted, {**PLAN, first: (2, 1)}, {replica: "/data/2"}) == {second}
    assert in_place(wanted, PLAN, {replica: "/data/1"}) == {first}
    assert in_place(wanted, PLAN, {replica: "/data/2"}) == {first, second}


def test_a_plan_keeps_its_order() -> None:
    """Internal topics come first, wherever the alphabet puts them."""
    plan: Plan = {TopicPartition("__consumer_offsets", 0): (1,), TopicPartition("Orders", 0): (1,)}
    assert [each["topic"] for each in plan_document(plan)["partitions"]] == ["__consumer_offsets", "Orders"]
