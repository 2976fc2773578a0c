"""Streams groups over a socket: internal topics, rights, settings of a group, features, a broker that comes back."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.compat.access_cases import SETTINGS as ACCESS
from tests.compat.access_cases import Administrator
from tests.compat.groups.scenarios import TOPIC
from tests.compat.groups.streams_scenarios import SETTINGS, committing, joining, staying, tasks
from tests.integration.cli_support import run_here
from tests.integration.raw_client import RawClient
from tidelog.client import Admin
from tidelog.coordination import partition_for
from tidelog.testing import Broker, Cluster
from tidelog.wire.errors import ErrorCode
from tidelog.wire.messages.delete_groups import DeleteGroupsRequest
from tidelog.wire.messages.find_coordinator import FindCoordinatorRequest
from tidelog.wire.messages.list_groups import ListGroupsRequest
from tidelog.wire.messages.streams_group_describe import StreamsGroupDescribeRequest
from tidelog.wire.messages.streams_group_topology_description_update import (
    StreamsGroupTopologyDescriptionUpdateRequest,
)

LOADING = (ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR)
DEADLINE_S = 30.0


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker(config=SETTINGS) as running:
        running.create_topic(TOPIC, 2)
        yield running


def asked(client: RawClient, request: Any) -> Any:
    """The answer once the group's coordinator is there."""
    deadline = time.monotonic() + DEADLINE_S
    while True:
        client.call(FindCoordinatorRequest(key_type=0, coordinator_keys=["app"]), 4)
        response = client.call(request)
        code = response.error_code if hasattr(response, "error_code") else response.groups[0].error_code
        if code not in LOADING:
            return response
        assert time.monotonic() < deadline, f"the coordinator does not come: {code}"
        time.sleep(0.05)


def begun(client: RawClient, **fields: Any) -> Any:
    """A member with every task; its last response."""
    response = asked(client, joining("app", "a", **fields))
    assert not response.error_code, response.error_message
    response = client.call(staying("app", "a", response.member_epoch, []))
    assert {entry.subtopology_id: entry.partitions for entry in response.active_tasks} == {"0": [0, 1], "1": [0, 1]}
    return response


def test_internal_topics_are_there_with_the_second_heartbeat(broker: Broker) -> None:
    with RawClient(broker.port) as client:
        response = begun(client)
        # The newest version, which has no limit for tasks that lag, and wants no description.
        assert response.acceptable_recovery_lag == -1
        assert not response.topology_description_required
    with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        found = admin.describe_topics(["app-r", "app-c"])
        assert {name: len(each.partitions) for name, each in found.items()} == {"app-r": 2, "app-c": 2}
        described = admin.describe_groups(["app"])["app"]
        assert (described.state, described.protocol_type) == ("Stable", "streams")
        [member] = described.members
        assert {(each.topic, each.partition) for each in member.assignment} == {
            (topic, partition) for topic in (TOPIC, "app-r") for partition in range(2)
        }


def test_what_keeps_an_internal_topic_from_being_created_is_said(broker: Broker) -> None:
    request = joining("app", "a")
    assert request.topology is not None
    [topic] = request.topology.subtopologies[1].state_changelog_topics
    topic.topic_configs[0].value = "never"
    with RawClient(broker.port) as client:
        [status] = asked(client, request).status
    assert status.status_detail.startswith("Internal topics are missing: app-c, app-r; Creation failed: app-c (")
    assert "never" in status.status_detail


def test_an_internal_topic_with_absurdly_many_partitions_is_refused(broker: Broker) -> None:
    request = joining("app", "a")
    assert request.topology is not None
    [topic] = request.topology.subtopologies[1].repartition_source_topics
    topic.partitions = 2**31 - 1
    with RawClient(broker.port) as client:
        [status] = asked(client, request).status
    assert "Excessively large number of partitions" in status.status_detail


@pytest.mark.long
def test_whichever_broker_coordinates_creates_internal_topics() -> None:
    """Only one of them is the controller."""
    coordinators = set()
    with Cluster(2, {**SETTINGS, "offsets.topic.num.partitions": "2"}) as cluster:
        cluster.create_topic(TOPIC, 2)
        port = int(cluster.address_of(1).rpartition(":")[2])
        for group in ("app-0", "app-1"):
            assert partition_for(group, 2) == int(group[-1])
            with RawClient(port) as client:
                found = _coordinator(client, group)
            coordinators.add(found.node_id)
            with RawClient(found.port) as client:
                deadline = time.monotonic() + DEADLINE_S
                response = client.call(joining(group, "a"))
                while response.error_code in LOADING:
                    assert time.monotonic() < deadline, "the coordinator does not come"
                    response = client.call(joining(group, "a"))
                while not response.active_tasks:
                    assert time.monotonic() < deadline, f"no task is assigned: {response}"
                    response = client.call(staying(group, "a", response.member_epoch, []))
    assert coordinators == {1, 2}


def _coordinator(client: RawClient, group: str) -> Any:
    deadline = time.monotonic() + DEADLINE_S
    while True:
        [found] = client.call(FindCoordinatorRequest(key_type=0, coordinator_keys=[group]), 4).coordinators
        if not found.error_code:
            return found
        assert time.monotonic() < deadline, f"no coordinator: {found.error_code}"
        time.sleep(0.05)


def test_a_broker_that_comes_back_knows_members_tasks_and_offsets(tmp_path: Path) -> None:
    with Broker(config=SETTINGS, data_dir=tmp_path) as running:
        running.create_topic(TOPIC, 2)
        with RawClient(running.port) as client:
            epoch = begun(client).member_epoch
            client.call(committing("app", "a", epoch, TOPIC), 9)
    with Broker(config=SETTINGS, data_dir=tmp_path) as running, RawClient(running.port) as client:
        response = asked(client, staying("app", "a", epoch, tasks(0, 1)))
        assert (response.error_code, response.member_epoch, response.status) == (0, epoch, [])
        [group] = asked(client, StreamsGroupDescribeRequest(group_ids=["app"])).groups
        assert (group.group_state, group.group_epoch) == ("Stable", epoch)
        with Admin(bootstrap_servers=running.bootstrap_servers) as admin:
            assert len(admin.list_consumer_group_offsets("app")) == 1


def test_a_group_has_settings_of_its_own(broker: Broker) -> None:
    server = broker.bootstrap_servers
    own = ("--group", "app", "--set", "streams.num.standby.replicas=1", "--set", "streams.heartbeat.interval.ms=6000")
    assert run_here("config", "alter", *own, server=server).code == 0
    assert run_here("config", "alter", "--group", "app", "--set", "streams.num.standby.replicas=3", server=server).code
    with RawClient(broker.port) as client:
        response = begun(client)
        assert response.heartbeat_interval_ms == 6000
        joined = client.call(joining("app", "b"))
        kept = client.call(staying("app", "a", response.member_epoch, tasks(0, 1)))
        client.call(staying("app", "a", kept.member_epoch, kept.active_tasks))
        response = client.call(staying("app", "b", joined.member_epoch, []))
        assert response.standby_tasks, "a second process has copies"


def test_streams_groups_are_listed_with_their_type_and_deleted_when_empty(broker: Broker) -> None:
    with RawClient(broker.port) as client:
        begun(client)
        [found] = client.call(ListGroupsRequest(types_filter=["streams"], states_filter=["Stable"])).groups
        assert (found.group_id, found.group_type, found.protocol_type) == ("app", "streams", "streams")
        assert client.call(ListGroupsRequest(types_filter=["classic"])).groups == []
        request = DeleteGroupsRequest(groups_names=["app"])
        assert client.call(request).results[0].error_code == ErrorCode.NON_EMPTY_GROUP
        client.call(staying("app", "a", -1))
        assert client.call(request).results[0].error_code == ErrorCode.NONE
        assert client.call(ListGroupsRequest()).groups == []


def test_descriptions_of_topologies_are_not_stored(broker: Broker) -> None:
    with RawClient(broker.port) as client:
        begun(client)
        request = StreamsGroupDescribeRequest(group_ids=["app"], include_topology_description=True)
        [group] = client.call(request).groups
        assert (group.topology_description, group.topology_description_status) == (None, 1)
        update = StreamsGroupTopologyDescriptionUpdateRequest(group_id="app", member_id="a")
        assert client.call(update).error_code == ErrorCode.UNSUPPORTED_VERSION


@pytest.mark.parametrize(
    ("settings", "level"), [({"group.coordinator.rebalance.protocols": "classic,consumer"}, 1), ({}, 0)]
)
def test_streams_groups_can_be_switched_off(settings: dict[str, str], level: int) -> None:
    with Broker(config={**SETTINGS, **settings}) as running, RawClient(running.port) as client:
        if not level:
            server = running.bootstrap_servers
            assert run_here("features", "downgrade", "streams.version=0", server=server).code == 0
        assert client.call(joining("app", "a")).error_code == ErrorCode.UNSUPPORTED_VERSION
        [group] = client.call(StreamsGroupDescribeRequest(group_ids=["app"])).groups
        assert group.error_code == ErrorCode.UNSUPPORTED_VERSION


def test_a_member_needs_rights_to_its_group_and_its_topics_and_to_create_some() -> None:
    with Broker(config={**SETTINGS, **ACCESS}) as running, RawClient(running.port) as client:
        administrator = Administrator(running.bootstrap_servers)
        administrator.prepare()
        running.create_topic(TOPIC, 2)
        group, source = ("GROUP", "app", "READ", "ALLOW"), ("TOPIC", TOPIC, "DESCRIBE", "ALLOW")
        internal = [("TOPIC", name, "DESCRIBE", "ALLOW") for name in ("app-r", "app-c")]
        administrator.grant(())
        assert client.call(joining("app", "a")).error_code == ErrorCode.GROUP_AUTHORIZATION_FAILED
        administrator.grant((group, source))
        assert client.call(joining("app", "a")).error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
        administrator.grant((group, source, *internal, ("TOPIC", "app-c", "CREATE", "ALLOW")))
        [status] = asked(client, joining("app", "a")).status
        assert status.status_detail.endswith("; Unauthorized to CREATE on topics app-r.")
        administrator.grant((group, source, *internal, ("BROKER", "kafka-cluster", "CREATE", "ALLOW")))
        client.call(joining("app", "a"))
        assert client.call(joining("app", "a")).active_tasks, "the topics are there"
        administrator.grant((("GROUP", "app", "DESCRIBE", "ALLOW"), source))
        [found] = client.call(StreamsGroupDescribeRequest(group_ids=["app"])).groups
        assert (found.error_code, found.members) == (ErrorCode.TOPIC_AUTHORIZATION_FAILED, [])
