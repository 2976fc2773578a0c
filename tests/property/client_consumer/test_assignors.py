"""Any group, any claims: every assignor gives every partition to one member that wants it, as evenly as it promises."""

from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.property.effort import examples
from tests.unit.client.consumer.groups import assert_complete, topics
from tidelog.client.aio.consumer.assignors import CooperativeStickyAssignor, RangeAssignor, RoundRobinAssignor
from tidelog.client.aio.consumer.assignors.sticky import assign_sticky
from tidelog.client.aio.consumer.protocol import Subscription
from tidelog.client.types import TopicPartition

TOPICS = ("w", "x", "y", "z")
modest = settings(max_examples=examples(80), deadline=None)

counts = st.dictionaries(st.sampled_from(TOPICS), st.integers(1, 7), min_size=1)
partitions = st.builds(TopicPartition, st.sampled_from(TOPICS), st.integers(0, 8))
claims = st.lists(partitions, max_size=6, unique=True)


def subscriptions(wanted):
    return st.dictionaries(
        st.sampled_from("abcdef"),
        st.builds(
            Subscription,
            topics=wanted,
            owned=claims.map(tuple),
            generation_id=st.integers(-1, 3),
            rack_id=st.sampled_from([None, "east", "west"]),
            group_instance_id=st.none(),
        ),
        min_size=1,
    )


some_topics = st.sets(st.sampled_from(TOPICS), min_size=1).map(tuple)
differing = subscriptions(some_topics)
equal = some_topics.flatmap(lambda wanted: subscriptions(st.just(wanted)))


@modest
@given(counts, differing)
def test_range_and_round_robin_give_everything_away_once(sizes, group):
    for assignor in (RangeAssignor(), RoundRobinAssignor()):
        assert_complete(assignor.assign(topics(**sizes), group), group, sizes)


def sticky(sizes, group):
    return assign_sticky(
        topics(**sizes), group, {name: (each.owned, each.generation_id) for name, each in group.items()}
    )


@modest
@given(counts, equal)
def test_sticky_is_even_where_all_want_the_same(sizes, group):
    plan = sticky(sizes, group)
    assert_complete(plan, group, sizes)
    loads = [len(each) for each in plan.values()]
    assert max(loads) - min(loads) <= 1


@modest
@given(counts, differing)
def test_sticky_is_as_even_as_can_be_where_they_do_not(sizes, group):
    """No chain of hand-overs leads from a member to one that has at least two partitions less."""
    plan = sticky(sizes, group)
    assert_complete(plan, group, sizes)
    for start in plan:
        reached, frontier = {start}, [start]
        while frontier:
            held = {partition.topic for partition in plan[frontier.pop()]}
            takers = {name for name, each in group.items() if held & set(each.topics)} - reached
            reached |= takers
            frontier += takers
        assert min(len(plan[name]) for name in reached) >= len(plan[start]) - 1


@modest
@given(counts, equal)
def test_sticky_moves_nothing_the_second_time(sizes, group):
    plan = sticky(sizes, group)
    again = {name: each._replace(owned=tuple(plan[name]), generation_id=9) for name, each in group.items()}
    assert {name: set(each) for name, each in sticky(sizes, again).items()} == {
        name: set(each) for name, each in plan.items()
    }


@modest
@given(counts, differing)
def test_sticky_moves_nothing_the_second_time_with_differing_wishes_either(sizes, group):
    plan = sticky(sizes, group)
    again = {name: each._replace(owned=tuple(plan[name]), generation_id=9) for name, each in group.items()}
    assert {name: set(each) for name, each in sticky(sizes, again).items()} == {
        name: set(each) for name, each in plan.items()
    }


@modest
@given(counts, differing)
def test_cooperative_rounds_end_with_everything_given_away(sizes, group):
    """No partition is ever given to one member while another has it, and after a few rounds all have readers."""
    assignor = CooperativeStickyAssignor()
    for generation in range(4, 9):
        plan = assignor.assign(topics(**sizes), group)
        owners = Counter(partition for each in plan.values() for partition in each)
        assert all(count == 1 for count in owners.values())
        for name, each in plan.items():
            others = {partition for other, sub in group.items() if other != name for partition in sub.owned}
            assert not others & set(each)
        moved = any(set(plan[name]) != set(each.owned) for name, each in group.items())
        group = {name: each._replace(owned=tuple(plan[name]), generation_id=generation) for name, each in group.items()}
        if not moved:
            break
    assert not moved
    assert_complete(plan, group, sizes)
