from collections.abc import Mapping
from dataclasses import dataclass, field

import pytest

from tests.unit.client.consumer.groups import assert_complete, members, shown, topics
from tidelog.client.aio.consumer.assignors import (
    CooperativeStickyAssignor,
    RangeAssignor,
    RebalanceProtocol,
    RoundRobinAssignor,
    StickyAssignor,
    choose_protocol,
    make_assignors,
)
from tidelog.client.aio.consumer.assignors.base import PartitionRacks, Plan, StatelessAssignor, Topics, in_member_order
from tidelog.client.aio.consumer.protocol import Assignment, Subscription
from tidelog.client.errors import ClientConfigError
from tidelog.client.types import TopicPartition


def owning(*names: str, generation: int = 1, wants: tuple[str, ...] = ("t",), instance: str | None = None):
    owned = tuple(TopicPartition(name.split("-")[0], int(name.split("-")[1])) for name in names)
    return Subscription(wants, None, owned, generation, None, instance)


class TestRange:
    def test_neighbours_go_together_and_the_first_get_one_more(self):
        plan = RangeAssignor().assign(topics(t=5), members(a=["t"], b=["t"]))
        assert shown(plan) == {"a": ["t-0", "t-1", "t-2"], "b": ["t-3", "t-4"]}

    def test_topics_of_one_size_are_divided_alike(self):
        """Joins read partition 3 of both topics in one place."""
        plan = RangeAssignor().assign(topics(x=3, y=3), members(a=["x", "y"], b=["x", "y"]))
        assert shown(plan) == {"a": ["x-0", "x-1", "y-0", "y-1"], "b": ["x-2", "y-2"]}

    def test_only_subscribers_count(self):
        plan = RangeAssignor().assign(topics(x=2, y=2), members(a=["x"], b=["x", "y"], c=[]))
        assert shown(plan) == {"a": ["x-0"], "b": ["x-1", "y-0", "y-1"], "c": []}

    def test_topics_that_do_not_exist_are_left_out(self):
        assert shown(RangeAssignor().assign(topics(x=1), members(a=["x", "gone"]))) == {"a": ["x-0"]}

    def test_more_members_than_partitions(self):
        assert shown(RangeAssignor().assign(topics(t=1), members(a=["t"], b=["t"]))) == {"a": ["t-0"], "b": []}

    def test_members_read_nearby_where_that_keeps_the_balance(self):
        racks = [["east"], ["west"], ["east"], ["west"]]
        nearby = {"t": [PartitionRacks(number, frozenset(each)) for number, each in enumerate(racks)]}
        group = {"a": Subscription(("t",), rack_id="west"), "b": Subscription(("t",), rack_id="east")}
        assert shown(RangeAssignor().assign(nearby, group)) == {"a": ["t-1", "t-3"], "b": ["t-0", "t-2"]}

    def test_racks_do_not_upset_the_balance(self):
        nearby = {"t": [PartitionRacks(number, frozenset({"east"})) for number in range(3)] + [PartitionRacks(3)]}
        group = {"a": Subscription(("t",), rack_id="west"), "b": Subscription(("t",), rack_id="east")}
        plan = RangeAssignor().assign(nearby, group)
        assert shown(plan) == {"a": ["t-2", "t-3"], "b": ["t-0", "t-1"]}

    def test_topics_divided_alike_are_matched_by_rack_together(self):
        racks = [["east"], ["west"]]
        partitions = [PartitionRacks(number, frozenset(each)) for number, each in enumerate(racks)]
        group = {"a": Subscription(("x", "y"), rack_id="west"), "b": Subscription(("x", "y"), rack_id="east")}
        plan = RangeAssignor().assign({"x": partitions, "y": partitions}, group)
        assert shown(plan) == {"a": ["x-1", "y-1"], "b": ["x-0", "y-0"]}


class TestRoundRobin:
    def test_partitions_are_dealt_in_order(self):
        plan = RoundRobinAssignor().assign(topics(x=3, y=2), members(a=["x", "y"], b=["x", "y"]))
        assert shown(plan) == {"a": ["x-0", "x-2", "y-1"], "b": ["x-1", "y-0"]}

    def test_who_did_not_ask_is_left_out(self):
        plan = RoundRobinAssignor().assign(topics(x=2, y=2), members(a=["x"], b=["x", "y"]))
        assert shown(plan) == {"a": ["x-0"], "b": ["x-1", "y-0", "y-1"]}


class TestOrder:
    def test_static_members_come_first_by_their_instance(self):
        """A static member that comes back has another member id, and must not change places."""
        group = {"z": owning(instance="1"), "a": owning(instance="2"), "b": owning()}
        assert in_member_order(group) == ["z", "a", "b"]


class TestSticky:
    def assign(self, group, **counts):
        return StickyAssignor().assign(topics(**counts), group)

    def remembering(self, *names, generation=1, wants=("t",)):
        assignor = StickyAssignor()
        assignor.on_assignment(Assignment(owning(*names).owned), generation)
        return Subscription(wants, assignor.user_data())

    def test_a_first_assignment_is_even(self):
        group = members(a=["t"], b=["t"], c=["t"])
        plan = self.assign(group, t=8)
        assert_complete(plan, group, {"t": 8})
        assert sorted(map(len, plan.values())) == [2, 3, 3]

    def test_nothing_moves_without_a_reason(self):
        group = {"a": self.remembering("t-0", "t-3"), "b": self.remembering("t-1", "t-2")}
        assert shown(self.assign(group, t=4)) == {"a": ["t-0", "t-3"], "b": ["t-1", "t-2"]}

    def test_who_joins_gets_a_fair_share_and_no_more_moves(self):
        group = {"a": self.remembering("t-0", "t-1"), "b": self.remembering("t-2", "t-3"), "c": Subscription(("t",))}
        plan = shown(self.assign(group, t=4))
        assert len(plan["c"]) == 1
        assert set(plan["a"]) <= {"t-0", "t-1"}
        assert set(plan["b"]) <= {"t-2", "t-3"}

    def test_partitions_of_who_left_go_round(self):
        group = {"a": self.remembering("t-0", "t-3"), "b": self.remembering("t-1", "t-4")}
        plan = shown(self.assign(group, t=6))
        assert plan["a"][:1] == ["t-0"]
        assert {"t-0", "t-3"} <= set(plan["a"])
        assert {"t-1", "t-4"} <= set(plan["b"])

    def test_the_later_generation_is_believed(self):
        """A member that was away claims what others have had since."""
        group = {
            "back": self.remembering("t-0", "t-1", generation=3),
            "there": self.remembering("t-0", "t-1", generation=4),
        }
        plan = shown(self.assign(group, t=2))
        assert [len(each) for each in plan.values()] == [1, 1]

    def test_two_claims_of_one_generation_cancel_out(self):
        group = {"a": self.remembering("t-0"), "b": self.remembering("t-0")}
        plan = self.assign(group, t=2)
        assert_complete(plan, group, {"t": 2})

    def test_claims_of_what_is_gone_or_unwanted_are_ignored(self):
        group = {"a": self.remembering("t-9", "old-0"), "b": self.remembering("t-0", wants=("u",))}
        plan = self.assign(group, t=1, u=1)
        assert shown(plan) == {"a": ["t-0"], "b": ["u-0"]}

    def test_different_subscriptions_are_evened_out_through_chains(self):
        """c is full and a is empty, but c holds nothing that a wants: b hands on to a and takes over from c."""
        group = {
            "a": Subscription(("x",)),
            "b": self.remembering("x-0", "x-1", wants=("x", "y")),
            "c": self.remembering("y-0", "y-1", "y-2", wants=("y",)),
        }
        plan = self.assign(group, x=2, y=3)
        assert_complete(plan, group, {"x": 2, "y": 3})
        assert sorted(map(len, plan.values())) == [1, 2, 2]

    def test_racks_decide_where_nothing_else_does(self):
        racks = [["east"], ["west"], ["east"], ["west"]]
        nearby = {"t": [PartitionRacks(number, frozenset(each)) for number, each in enumerate(racks)]}
        group = {"a": Subscription(("t",), rack_id="west"), "b": Subscription(("t",), rack_id="east")}
        assert shown(StickyAssignor().assign(nearby, group)) == {"a": ["t-1", "t-3"], "b": ["t-0", "t-2"]}

    def test_the_first_time_there_is_nothing_to_tell(self):
        assert StickyAssignor().user_data() is None


class TestCooperativeSticky:
    def test_what_moves_is_free_for_one_round(self):
        """Its last reader may still be reading it; two at once would be wrong."""
        group = {"a": owning("t-0", "t-1", "t-2", "t-3"), "b": owning()}
        first = shown(CooperativeStickyAssignor().assign(topics(t=4), group))
        assert len(first["a"]) == 2
        assert first["b"] == []

    def test_in_the_next_round_it_arrives(self):
        group = {"a": owning("t-0", "t-1", generation=2), "b": owning(generation=2)}
        plan = shown(CooperativeStickyAssignor().assign(topics(t=4), group))
        assert plan == {"a": ["t-0", "t-1"], "b": ["t-2", "t-3"]}

    def test_what_two_claim_is_not_assigned_yet(self):
        group = {"a": owning("t-0", generation=2), "b": owning("t-0", generation=1)}
        plan = shown(CooperativeStickyAssignor().assign(topics(t=2), group))
        assert "t-0" not in [each for partitions in plan.values() for each in partitions]

    def test_leaders_that_look_for_the_generation_in_the_user_data_find_it(self):
        assignor = CooperativeStickyAssignor()
        assert assignor.user_data() == b"\xff\xff\xff\xff"
        assignor.on_assignment(Assignment(()), 5)
        assert assignor.user_data() == b"\0\0\0\5"

    def test_the_generation_of_an_older_client_is_read_from_the_user_data(self):
        older = Subscription(("t",), b"\0\0\0\7", (TopicPartition("t", 0),))
        newer = owning("t-0", generation=3)
        plan = CooperativeStickyAssignor().assign(topics(t=1), {"older": older, "newer": newer})
        assert plan == {"older": [], "newer": []}


@dataclass
class Custom(StatelessAssignor):
    name: str = "custom"
    protocols: frozenset[RebalanceProtocol] = field(default_factory=lambda: frozenset({RebalanceProtocol.COOPERATIVE}))

    def assign(self, topics: Topics, subscriptions: Mapping[str, Subscription]) -> Plan:
        return {}


class TestChoosing:
    def test_names_of_the_java_client_are_understood(self):
        (made,) = make_assignors(["org.apache.kafka.clients.consumer.StickyAssignor"])
        assert isinstance(made, StickyAssignor)

    def test_objects_and_classes_are_taken_as_they_are(self):
        own = Custom()
        assert make_assignors([own, RangeAssignor])[0] is own

    @pytest.mark.parametrize(("strategies", "said"), [([], "empty"), (["ranged"], "ranged"), (["range"] * 2, "twice")])
    def test_mistakes_are_named(self, strategies, said):
        with pytest.raises(ClientConfigError, match=said):
            make_assignors(strategies)

    def test_the_highest_shared_protocol_is_used(self):
        assert choose_protocol(make_assignors(["cooperative-sticky"])) is RebalanceProtocol.COOPERATIVE
        assert choose_protocol(make_assignors(["range", "cooperative-sticky"])) is RebalanceProtocol.EAGER

    def test_assignors_that_cannot_be_used_together_are_refused(self):
        with pytest.raises(ClientConfigError, match="share no rebalance protocol"):
            choose_protocol([RangeAssignor(), Custom()])
