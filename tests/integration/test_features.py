"""Features over sockets: levels that an admin finalises, and what becomes of them where an older broker joins."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient

from tests.integration.cli_support import run_here
from tests.integration.raw_client import RawClient
from tests.integration.servers import Servers, until
from tidelog.broker.configuration import settings
from tidelog.metadata.features import GROUP_VERSION, NOTHING_FINALISED, SUPPORTED, Update, UpgradeType
from tidelog.testing import Broker
from tidelog.wire.errors import ErrorCode
from tidelog.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from tidelog.wire.messages.consumer_group_describe import ConsumerGroupDescribeRequest


def api_versions(client: RawClient, version: int, **fields: Any) -> ApiVersionsResponse:
    request = ApiVersionsRequest(client_software_name="test", client_software_version="1", **fields)
    found = client.call(request, version)
    assert isinstance(found, ApiVersionsResponse)
    return found


def test_a_level_that_was_finalised_is_in_effect_and_survives_a_restart(tmp_path: Path) -> None:
    with Broker(data_dir=tmp_path) as broker:
        server = broker.bootstrap_servers
        described = run_here("features", "describe", "--format", "json", server=server).document
        assert {each["feature"]: each["level"] for each in described} == SUPPORTED
        assert run_here("features", "upgrade", f"{GROUP_VERSION}=9", server=server).code == 1
        assert run_here("features", "downgrade", f"{GROUP_VERSION}=0", server=server).code == 0
    with Broker(data_dir=tmp_path) as broker, RawClient(int(broker.bootstrap_servers.rpartition(":")[2])) as client:
        found = api_versions(client, 4)
        assert GROUP_VERSION not in {each.name for each in found.finalized_features}
        assert {each.name: (each.min_version, each.max_version) for each in found.supported_features} == {
            name: (0, level) for name, level in SUPPORTED.items()
        }
        assert api_versions(client, 3).supported_features == [], "its clients cannot read a lowest level of 0"
        request = ConsumerGroupDescribeRequest(group_ids=["any"])
        (group,) = client.call(request, 0).groups
        assert group.error_code == ErrorCode.UNSUPPORTED_VERSION


def test_a_client_that_expects_another_cluster_or_broker_is_told_to_bootstrap_again(tmp_path: Path) -> None:
    with Broker(data_dir=tmp_path) as broker, RawClient(int(broker.bootstrap_servers.rpartition(":")[2])) as client:
        known = AdminClient({"bootstrap.servers": broker.bootstrap_servers}).list_topics(timeout=20)
        cluster_id, (node_id,) = known.cluster_id, known.brokers
        assert api_versions(client, 5, cluster_id=cluster_id, node_id=node_id).error_code == ErrorCode.NONE
        for wrong in ({"cluster_id": "other", "node_id": node_id}, {"cluster_id": cluster_id, "node_id": node_id + 1}):
            assert api_versions(client, 5, **wrong).error_code == ErrorCode.REBOOTSTRAP_REQUIRED


def test_levels_sink_when_a_broker_of_an_older_version_joins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def play() -> None:
        servers = Servers(tmp_path)
        try:
            await servers.start(1, 2)
            one, two = (servers.running[each].node for each in (1, 2))
            controller = one if one.topology.is_controller else two
            lower = Update(GROUP_VERSION, 0, UpgradeType.SAFE_DOWNGRADE)
            assert await controller.features.update([lower]) == {}
            await until(lambda: one.features.level(GROUP_VERSION) == two.features.level(GROUP_VERSION) == 0)
            epoch = one.features.finalised.epoch

            monkeypatch.setattr(settings, "SUPPORTED", {})
            await servers.start(3)
            # An older broker serves such groups: off, which it does not know, gives way to what it does.
            await until(lambda: all(each.features.level(GROUP_VERSION) == 1 for each in (one, two)))
            assert one.features.finalised.epoch > epoch
            refusals = await controller.features.update([lower])
            assert "Broker 3 does not support this feature" in refusals[GROUP_VERSION].text
            assert one.features.finalised.level(GROUP_VERSION) == NOTHING_FINALISED.level(GROUP_VERSION)
        finally:
            await servers.stop()

    asyncio.run(play())
