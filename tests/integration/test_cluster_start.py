"""Brokers of a cluster are ready when clients can use them: the controller has informed each of them."""

from tidelog.client import Admin, ConfigResource, ResourceType
from tidelog.testing import Cluster


def test_every_broker_names_itself_and_the_controller_as_soon_as_it_is_ready() -> None:
    with Cluster(3) as cluster:
        for broker_id in cluster.broker_ids:
            with Admin(bootstrap_servers=cluster.address_of(broker_id)) as admin:
                described = admin.describe_cluster()
            assert described.controller_id in cluster.broker_ids
            assert broker_id in [node.node_id for node in described.nodes]


def test_a_broker_has_settings_of_its_own() -> None:
    with Cluster(2, {"num.partitions": 3}, broker_config={2: {"num.partitions": 5}}) as cluster:
        found = {}
        for broker_id in cluster.broker_ids:
            with Admin(bootstrap_servers=cluster.address_of(broker_id)) as admin:
                resource = ConfigResource(ResourceType.BROKER, str(broker_id))
                (settings,) = admin.describe_configs([resource], names=["num.partitions"]).values()
                found[broker_id] = settings["num.partitions"].value
    assert found == {1: "3", 2: "5"}
