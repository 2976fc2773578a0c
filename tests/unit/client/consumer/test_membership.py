import pytest

from tidelog.client.aio.consumer.membership import (
    HEARTBEAT_ERRORS,
    JOIN_ERRORS,
    NO_GENERATION,
    SYNC_ERRORS,
    Generation,
    Membership,
    MemberState,
    Outcome,
)
from tidelog.client.errors import ApiError
from tidelog.wire.errors import ErrorCode
from tidelog.wire.messages.join_group import JoinGroupResponse
from tidelog.wire.messages.sync_group import SyncGroupResponse


def newcomer(instance=None):
    return Membership("g", instance, session_timeout_ms=10_000, rebalance_timeout_ms=60_000)


def joined(member, generation_id=1, error=ErrorCode.NONE, member_id="m", kind="consumer"):
    return member.on_joined(
        JoinGroupResponse(
            error_code=error,
            generation_id=generation_id,
            member_id=member_id,
            protocol_name="range",
            protocol_type=kind,
            leader="m",
        )
    )


def synced(member, error=ErrorCode.NONE, protocol="range"):
    return member.on_synced(SyncGroupResponse(error_code=error, assignment=b"x", protocol_name=protocol))


def stable(instance=None):
    member = newcomer(instance)
    member.is_prepared = True
    member.join_request([("range", b"")])
    assert joined(member) is Outcome.PROCEED
    assert synced(member) is Outcome.PROCEED
    return member


class TestJoining:
    def test_a_join_goes_through_both_requests(self):
        member = newcomer()
        assert member.is_rejoin_needed
        request = member.join_request([("range", b"r"), ("sticky", b"s")])
        assert member.state is MemberState.PREPARING_REBALANCE
        assert (request.member_id, request.protocol_type) == ("", "consumer")
        assert [(each.name, each.metadata) for each in request.protocols] == [("range", b"r"), ("sticky", b"s")]
        assert (request.session_timeout_ms, request.rebalance_timeout_ms) == (10_000, 60_000)
        assert not member.must_heartbeat
        assert joined(member) is Outcome.PROCEED
        assert member.must_heartbeat
        assert member.stable_generation is None
        sync = member.sync_request({"m": b"all"})
        assert (sync.generation_id, sync.member_id, sync.protocol_name) == (1, "m", "range")
        assert synced(member) is Outcome.PROCEED
        assert member.stable_generation == Generation(1, "m", "range")
        assert not member.is_rejoin_needed

    def test_a_member_without_id_is_given_one_and_joins_again_with_it(self):
        member = newcomer()
        member.is_prepared = True
        member.join_request([("range", b"")])
        assert joined(member, error=ErrorCode.MEMBER_ID_REQUIRED, member_id="new") is Outcome.REJOIN
        assert member.is_prepared
        assert member.join_request([("range", b"")]).member_id == "new"

    def test_an_answer_that_comes_after_leaving_counts_for_nothing(self):
        member = newcomer()
        member.join_request([("range", b"")])
        member.leave_request("bye")
        assert joined(member) is Outcome.REJOIN
        assert member.generation == NO_GENERATION

    def test_a_group_of_another_kind_is_refused(self):
        member = newcomer()
        member.join_request([("range", b"")])
        with pytest.raises(ApiError, match="'connect'"):
            joined(member, kind="connect")

    def test_another_assignor_than_agreed_is_refused(self):
        member = newcomer()
        member.join_request([("range", b"")])
        joined(member)
        with pytest.raises(ApiError, match="'sticky'"):
            synced(member, protocol="sticky")

    @pytest.mark.parametrize("code", sorted(JOIN_ERRORS))
    def test_no_error_that_passes_leaves_the_member_half_joined(self, code):
        member = newcomer()
        member.join_request([("range", b"")])
        assert joined(member, error=code) is JOIN_ERRORS[code][0]
        assert member.state is MemberState.UNJOINED
        assert member.is_rejoin_needed

    @pytest.mark.parametrize("code", sorted(SYNC_ERRORS))
    def test_nor_does_one_of_sync(self, code):
        member = newcomer()
        member.join_request([("range", b"")])
        joined(member)
        assert synced(member, error=code) is SYNC_ERRORS[code][0]
        assert member.state is MemberState.UNJOINED
        assert member.is_rejoin_needed

    @pytest.mark.parametrize(
        "code",
        [
            ErrorCode.FENCED_INSTANCE_ID,
            ErrorCode.GROUP_AUTHORIZATION_FAILED,
            ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
            ErrorCode.INVALID_SESSION_TIMEOUT,
            ErrorCode.GROUP_MAX_SIZE_REACHED,
            ErrorCode.INVALID_GROUP_ID,
        ],
    )
    def test_what_repeating_cannot_cure_is_raised(self, code):
        member = newcomer()
        member.join_request([("range", b"")])
        with pytest.raises(ApiError) as raised:
            joined(member, error=code)
        assert raised.value.code is code
        assert member.state is MemberState.UNJOINED

    def test_an_unknown_member_gives_its_id_up_and_its_partitions_are_lost(self):
        member = stable()
        member.is_prepared = True
        member.join_request([("range", b"")])
        joined(member, error=ErrorCode.UNKNOWN_MEMBER_ID)
        assert member.generation == NO_GENERATION
        assert not member.is_prepared

    def test_an_illegal_generation_keeps_the_id(self):
        member = stable()
        member.join_request([("range", b"")])
        joined(member, generation_id=2)
        synced(member, error=ErrorCode.ILLEGAL_GENERATION)
        assert member.generation == Generation(member_id="m")

    def test_the_first_reason_to_rejoin_is_the_one_sent(self):
        member = stable()
        member.request_rejoin("first")
        member.request_rejoin("second")
        assert member.join_request([]).reason == "first"

    def test_long_reasons_are_cut(self):
        """Kafka cuts them at 255 characters, too."""
        member = stable()
        member.request_rejoin("x" * 1000)
        assert len(member.join_request([]).reason) == 255


class TestHeartbeats:
    def test_a_rebalance_is_learnt_of(self):
        member = stable()
        assert member.on_heartbeat(ErrorCode.REBALANCE_IN_PROGRESS, member.generation) is Outcome.REJOIN
        assert member.is_rejoin_needed
        assert member.stable_generation is not None, "until it joins, it still is what it was"

    def test_while_joining_a_rebalance_is_no_news(self):
        member = newcomer()
        member.join_request([])
        joined(member)
        assert member.on_heartbeat(ErrorCode.REBALANCE_IN_PROGRESS, member.generation) is Outcome.PROCEED

    def test_answers_about_a_generation_that_is_over_change_nothing(self):
        member = stable()
        before = member.generation
        member.join_request([])
        joined(member, generation_id=2)
        assert member.on_heartbeat(ErrorCode.UNKNOWN_MEMBER_ID, before) is Outcome.PROCEED
        assert member.generation.generation_id == 2

    @pytest.mark.parametrize("code", sorted(HEARTBEAT_ERRORS))
    def test_errors_are_taken_as_the_table_says(self, code):
        member = stable()
        assert member.on_heartbeat(code, member.generation) is HEARTBEAT_ERRORS[code][0]

    def test_a_fenced_static_member_gets_the_error(self):
        member = stable("instance")
        with pytest.raises(ApiError) as raised:
            member.on_heartbeat(ErrorCode.FENCED_INSTANCE_ID, member.generation)
        assert raised.value.code is ErrorCode.FENCED_INSTANCE_ID


class TestLeaving:
    def test_a_dynamic_member_says_goodbye(self):
        member = stable()
        request = member.leave_request("done")
        assert [(each.member_id, each.reason) for each in request.members] == [("m", "done")]
        assert member.state is MemberState.UNJOINED
        assert member.generation == NO_GENERATION

    def test_a_static_member_goes_without_a_word(self):
        """It may be back before its session ends, and then nothing has to move."""
        assert stable("instance").leave_request("restart") is None

    def test_who_never_joined_has_nothing_to_leave(self):
        assert newcomer().leave_request("done") is None


class TestCommits:
    def test_a_refused_commit_ends_the_membership(self):
        member = stable()
        assert member.lose(ErrorCode.UNKNOWN_MEMBER_ID, member.generation)
        assert member.state is MemberState.UNJOINED
        assert member.is_rejoin_needed

    def test_one_that_was_sent_in_an_earlier_generation_does_not(self):
        member = stable()
        assert not member.lose(ErrorCode.ILLEGAL_GENERATION, Generation(0, "m"))
        assert member.stable_generation is not None

    def test_a_producer_can_commit_in_the_name_of_the_member(self):
        metadata = stable("instance").metadata
        assert metadata == ("g", 1, "m", "instance")
