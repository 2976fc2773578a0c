import re

import pytest

from tests.unit.client.consumer.clusters import metadata_with
from tests.unit.present import present
from tidelog.client.aio.consumer.offset_reset import EARLIEST
from tidelog.client.aio.consumer.partition_state import FetchState, Leader, Position
from tidelog.client.aio.consumer.subscription import SubscriptionState
from tidelog.client.aio.waits import Wait
from tidelog.client.errors import IllegalState
from tidelog.client.types import OffsetAndMetadata, TopicPartition

T0, T1, U0 = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 0)


def assigned(*partitions, reset=EARLIEST):
    subscription = SubscriptionState(reset)
    subscription.assign(partitions)
    return subscription


class TestKinds:
    @pytest.mark.parametrize("second", ["topics", "pattern", "assign"])
    @pytest.mark.parametrize("first", ["topics", "pattern", "assign"])
    def test_topics_patterns_and_partitions_exclude_each_other(self, first, second):
        def choose(subscription, kind):
            if kind == "topics":
                subscription.subscribe(["t"], None)
            elif kind == "pattern":
                subscription.subscribe_pattern(re.compile("t.*"), None)
            else:
                subscription.assign([T0])

        subscription = SubscriptionState(EARLIEST)
        choose(subscription, first)
        if first == second:
            choose(subscription, second)
        else:
            with pytest.raises(IllegalState, match="cannot be combined"):
                choose(subscription, second)
            subscription.unsubscribe()
            choose(subscription, second)

    def test_a_pattern_matches_whole_names_and_needs_to_see_all_topics(self):
        subscription = SubscriptionState(EARLIEST)
        subscription.subscribe_pattern(re.compile("log"), None)
        subscription.match_topics(["log", "logs", "blog"])
        assert subscription.topics == {"log"}
        assert subscription.metadata_topics is None

    def test_metadata_is_needed_of_what_is_read_led_or_asked_about(self):
        subscription = SubscriptionState(EARLIEST)
        subscription.subscribe(["t"], None)
        subscription.add_group_topics(["u"])
        with subscription.also_knowing(["v"]):
            assert set(present(subscription.metadata_topics)) == {"t", "u", "v"}
        subscription.forget_group_topics()
        assert set(present(subscription.metadata_topics)) == {"t"}

    def test_an_assignment_must_fit_what_is_subscribed_now(self):
        subscription = SubscriptionState(EARLIEST)
        subscription.subscribe(["t"], None)
        assert subscription.fits([T0])
        assert not subscription.fits([T0, U0])

    def test_questions_about_other_partitions_are_refused(self):
        with pytest.raises(IllegalState, match="u-0 is not assigned"):
            assigned(T0).state_of(U0)


class TestAssignments:
    def test_partitions_that_stay_keep_their_place(self):
        subscription = SubscriptionState(EARLIEST)
        subscription.subscribe(["t"], None)
        subscription.assign_from_group([T0, T1])
        subscription.state_of(T0).seek(Position(9))
        subscription.assign_from_group([T0])
        assert subscription.state_of(T0).position == Position(9)
        assert subscription.has_all_positions

    def test_only_positions_that_are_known_can_be_committed(self):
        subscription = assigned(T0, T1)
        subscription.state_of(T0).seek(Position(9, 3))
        assert subscription.consumed() == {T0: OffsetAndMetadata(9, "", 3)}


class TestPositions:
    def test_a_position_that_is_asked_for_is_not_due_until_its_question_ends(self):
        subscription = assigned(T0, T1)
        subscription.state_of(T0).asked = object()
        assert subscription.due(0) == {FetchState.INITIALIZING: [subscription.state_of(T1)]}
        assert subscription.state_of(T0).wait(0) is Wait.COMMITTED_OFFSET
        subscription.state_of(T0).request_reset(EARLIEST)
        assert subscription.due(0)[FetchState.AWAIT_RESET] == [subscription.state_of(T0)], "a seek is another question"

    def test_a_position_that_was_refused_is_due_at_its_time(self):
        subscription = assigned(T0)
        state = subscription.state_of(T0)
        state.retry_at_ms = 50
        assert state.wait(49) is Wait.POSITION_RETRY
        assert subscription.due(49) == {}
        assert subscription.due(50) == {FetchState.INITIALIZING: [state]}
        assert subscription.next_retry_ms() == 50

    def test_what_comes_for_a_partition_given_up_leaves_the_same_partition_assigned_again_alone(self):
        subscription = assigned(T0)
        before = subscription.state_of(T0)
        subscription.assign([])
        subscription.assign([T0])
        before.seek(Position(5))
        assert subscription.due(0) == {FetchState.INITIALIZING: [subscription.state_of(T0)]}
        before.request_reset(EARLIEST)
        assert subscription.due(0) == {FetchState.INITIALIZING: [subscription.state_of(T0)]}


class TestLeaders:
    """KIP-320: a position is only good in the log of the leader that gave it, or of one that confirmed it."""

    def fetching(self, epoch):
        subscription = assigned(T0)
        state = subscription.state_of(T0)
        state.follow_leader(Leader(1, 4))
        state.seek(Position(10, epoch))
        return subscription, state

    def test_a_new_leader_must_confirm_the_position(self):
        subscription, state = self.fetching(epoch=4)
        subscription.follow_leaders(metadata_with({"t": [(2, 5)]}))
        assert state.state is FetchState.AWAIT_VALIDATION
        assert state.leader == Leader(2, 5)
        assert not state.is_fetchable
        assert subscription.consumed() == {T0: OffsetAndMetadata(10, "", 4)}
        state.complete_validation()
        assert state.is_fetchable

    def test_without_an_epoch_there_is_nothing_to_compare(self):
        subscription, state = self.fetching(epoch=-1)
        subscription.follow_leaders(metadata_with({"t": [(2, 5)]}))
        assert state.state is FetchState.FETCHING

    def test_the_same_leader_is_no_news(self):
        subscription, state = self.fetching(epoch=4)
        subscription.follow_leaders(metadata_with({"t": [(1, 4)]}))
        assert state.state is FetchState.FETCHING

    def test_a_truncated_log_moves_the_position_to_where_both_agree(self):
        _, state = self.fetching(epoch=4)
        state.follow_leader(Leader(2, 5))
        state.complete_validation(Position(7, 3))
        assert state.position == Position(7, 3)

    def test_a_reset_is_not_validated(self):
        _, state = self.fetching(epoch=4)
        state.request_reset(EARLIEST)
        state.follow_leader(Leader(2, 5))
        assert state.state is FetchState.AWAIT_RESET

    def test_a_committed_epoch_is_validated_before_the_first_fetch(self):
        """The log may have been truncated while no consumer read."""
        subscription = assigned(T0)
        subscription.follow_leaders(metadata_with({"t": [(1, 6)]}))
        subscription.state_of(T0).seek_unvalidated(Position(10, 4))
        assert subscription.state_of(T0).state is FetchState.AWAIT_VALIDATION


class TestReplicas:
    def state(self):
        state = assigned(T0).state_of(T0)
        state.follow_leader(Leader(1, 4))
        state.seek(Position(0))
        return state

    def test_the_replica_nearby_is_read_for_a_while(self):
        state = self.state()
        state.prefer_replica(3, until_ms=100)
        assert state.replica_to_read(99) == 3
        assert state.replica_to_read(100) == 1
        assert state.replica_to_read(50) == 1

    def test_a_new_leader_or_a_seek_ends_the_preference(self):
        for change in (lambda state: state.follow_leader(Leader(2, 5)), lambda state: state.seek(Position(9))):
            state = self.state()
            state.prefer_replica(3, until_ms=100)
            change(state)
            assert state.replica_to_read(0) != 3

    def test_giving_the_preference_up_returns_whether_there_was_one(self):
        state = self.state()
        assert not state.forget_preferred_replica()
        state.prefer_replica(3, until_ms=100)
        assert state.forget_preferred_replica()


def test_paused_and_revoked_partitions_are_not_fetched_from():
    state = assigned(T0).state_of(T0)
    state.seek(Position(0))
    assert state.is_fetchable
    state.is_paused = True
    assert not state.is_fetchable
    state.is_paused = False
    state.is_revocation_pending = True
    assert not state.is_fetchable
