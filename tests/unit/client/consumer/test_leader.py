import pytest

from tests.unit.client.consumer.clusters import metadata_with
from tidelog.client.aio.consumer.assignors import RangeAssignor
from tidelog.client.aio.consumer.assignors.base import PartitionRacks, RebalanceProtocol
from tidelog.client.aio.consumer.leader import assign, read_subscriptions, snapshot_of
from tidelog.client.aio.consumer.protocol import Subscription, decode_assignment, encode_subscription
from tidelog.client.errors import IllegalState
from tidelog.client.types import TopicPartition
from tidelog.wire.messages.join_group import JoinGroupResponseMember

T0 = TopicPartition("t", 0)


def test_subscriptions_come_with_the_names_of_static_members():
    member = JoinGroupResponseMember(
        member_id="m", group_instance_id="i", metadata=encode_subscription(Subscription(("t",)))
    )
    assert read_subscriptions([member])["m"].group_instance_id == "i"


def test_assignors_see_partitions_with_the_racks_of_their_replicas():
    metadata = metadata_with({"t": [(1, 0), (2, 0)]}, brokers={1: "east", 2: None})
    assert snapshot_of(metadata, ["t", "unknown"]) == {
        "t": (PartitionRacks(0, frozenset({"east"})), PartitionRacks(1, frozenset()))
    }


def test_more_partitions_make_another_snapshot():
    before = snapshot_of(metadata_with({"t": [(1, 0)]}), ["t"])
    after = snapshot_of(metadata_with({"t": [(1, 0), (1, 0)]}), ["t"])
    assert before != after
    assert before == snapshot_of(metadata_with({"t": [(2, 9)]}), ["t"]), "another leader is none of its concern"


def test_every_member_gets_its_bytes():
    written = assign(
        RangeAssignor(),
        RebalanceProtocol.EAGER,
        {"t": [PartitionRacks(0)]},
        {"a": Subscription(("t",)), "b": Subscription(())},
    )
    assert decode_assignment(written["a"]).partitions == (T0,)
    assert decode_assignment(written["b"]).partitions == ()


def test_an_assignor_that_moves_partitions_in_one_step_is_stopped_under_the_cooperative_protocol():
    group = {"a": Subscription(("t",)), "b": Subscription(("t",), owned=(T0,))}
    with pytest.raises(IllegalState, match="gave t-0 to a while b owns it"):
        assign(RangeAssignor(), RebalanceProtocol.COOPERATIVE, {"t": [PartitionRacks(0)]}, group)
