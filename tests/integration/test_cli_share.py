"""`tidelog share`, as a user runs it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.integration.cli_support import Ran, run_here
from tests.integration.client_support import SECONDS, unique
from tests.integration.writers import wait_until
from tidelog.client import Admin, Producer, ShareConsumer, TopicPartition
from tidelog.testing import Broker


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker({"share.coordinator.state.topic.num.partitions": "3"}) as running:
        yield running


@pytest.fixture
def group(broker: Broker) -> str:
    """A group without members that has done two of the five records of its topic; the topic has the same name."""
    name = unique("work")
    broker.create_topic(name)
    servers = broker.bootstrap_servers
    with ShareConsumer(
        bootstrap_servers=servers, group_id=name, max_poll_records=1, share_acquire_mode="record_limit"
    ) as consumer:
        consumer.subscribe([name])
        with Admin(bootstrap_servers=servers) as admin:
            wait_until(lambda: not consumer.poll(0.1) and has_begun(admin, name), "the group begins")
        with Producer(bootstrap_servers=servers) as producer:
            for value in "abcde":
                producer.send(name, value.encode()).result(SECONDS)
        done = 0
        while done < 2:
            done += len(consumer.poll(1.0))
        consumer.commit()
    return name


def has_begun(admin: Admin, group: str) -> bool:
    is_there = group in {each.group_id for each in admin.list_groups(types=["Share"])}
    return is_there and bool(admin.list_share_group_offsets(group))


def share(broker: Broker, *words: str) -> Ran:
    return run_here("share", *words, server=broker.bootstrap_servers)


def test_a_group_is_listed_and_described(broker: Broker, group: str) -> None:
    assert {"group": group, "state": "Empty"} in share(broker, "list", "--format", "json").document
    assert share(broker, "describe", group, "--format", "json").document == [
        {"group": group, "topic": group, "partition": 0, "start_offset": 2, "lag": 3}
    ]
    text = share(broker, "describe", group).out
    assert "START-OFFSET" in text
    assert f"Share group '{group}' has no active members." in text
    (state,) = share(broker, "describe", group, "--state", "--format", "json").document
    assert (state["state"], state["protocol_type"], state["members"]) == ("Empty", "share", 0)


def test_members_and_what_they_read_are_described(broker: Broker, group: str) -> None:
    with ShareConsumer(bootstrap_servers=broker.bootstrap_servers, group_id=group, client_id="me") as consumer:
        consumer.subscribe([group])
        assert consumer.poll(SECONDS)
        (member,) = share(broker, "describe", group, "--members", "--format", "json").document
        assert (member["client_id"], member["assignment"]) == ("me", [{"topic": group, "partition": 0}])
        refused = share(broker, "reset", group, "--topic", group, "--to-earliest", "--execute")
        assert refused.code == 1
        assert "only while it has no members" in refused.err


def test_offsets_are_reset_only_with_execute(broker: Broker, group: str) -> None:
    planned = share(broker, "reset", group, "--all-topics", "--to-earliest", "--format", "json").document
    assert planned["executed"] is False
    assert planned["offsets"] == [{"topic": group, "partition": 0, "from": 2, "to": 0}]
    with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        where = TopicPartition(group, 0)
        assert admin.list_share_group_offsets(group)[where].start_offset == 2
        assert share(broker, "reset", group, "--topic", group, "--to-offset", "1", "--execute").code == 0
        found = admin.list_share_group_offsets(group, [where])[where]
        assert (found.start_offset, found.lag) == (1, 4)
    assert "exactly one of --to-earliest" in share(broker, "reset", group, "--topic", group).err


def test_a_group_and_its_offsets_of_a_topic_are_deleted(broker: Broker, group: str) -> None:
    assert share(broker, "delete", group, "--topic", group).code == 0
    assert share(broker, "describe", group, "--format", "json").document == []
    assert share(broker, "delete", group).out == f"Deleted group {group}.\n"
    gone = share(broker, "describe", group)
    assert gone.code == 1
    assert group in gone.err
