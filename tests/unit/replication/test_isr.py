"""In-sync replicas: who leaves, who joins, what counts while the controller has not answered, and acks=all."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.unit.replication.replicas import LAG_MS_MAX, TOPIC, TOPIC_ID, Replica
from tidelog.replication.alter_partition import AlterPartitionQueue
from tidelog.replication.fetch import FetchParameters, Wanted
from tidelog.replication.replica_set import SILENCE_MS_MAX, AlteredPartition, IsrProposal
from tidelog.timing import ManualClock
from tidelog.wire.errors import ApiError, ErrorCode
from tidelog.wire.fetch import FetchPartition, PartitionReply
from tidelog.wire.messages.alter_partition import AlterPartitionResponse, PartitionDataResponse, TopicDataResponse

ALL = (1, 2, 3)


class Three:
    """Broker 1 leads, 2 and 3 follow."""

    def __init__(self, directory: Path, **config: Any) -> None:
        self.clock = ManualClock()
        self.alive = {1, 2, 3}
        self.one, self.two, self.three = (
            Replica(broker_id, directory, self.clock, alive=self.alive, **config) for broker_id in ALL
        )
        self.one.lead(0, ALL, ALL)
        self.two.follow_in(0, 1, ALL)
        self.three.follow_in(0, 1, ALL)

    def shrink(self) -> IsrProposal | None:
        self.one.manager.propose_shrinking()
        return self.one.proposals.pop() if self.one.proposals else None

    def commit(self, proposal: IsrProposal) -> bool:
        """The controller agrees."""
        altered = AlteredPartition(1, proposal.leader_epoch, proposal.isr, proposal.partition_epoch + 1)
        return self.one.partition.on_altered(proposal, altered, self.clock.monotonic_ms())

    def close(self) -> None:
        for replica in (self.one, self.two, self.three):
            replica.log.close()


@pytest.fixture
def three(tmp_path: Path) -> Iterator[Three]:
    world = Three(tmp_path)
    yield world
    world.close()


def test_the_high_watermark_is_the_smallest_end_of_the_isr(three: Three) -> None:
    three.one.produce(b"a", b"b")
    three.two.follow(three.one)
    three.two.follow(three.one)
    assert three.one.marks == (0, 2), "3 has nothing yet"
    three.three.follow(three.one)
    three.three.follow(three.one)
    assert three.one.marks == (2, 2)


def test_a_follower_that_lags_for_too_long_leaves_and_the_high_watermark_moves_on(three: Three) -> None:
    three.one.produce_all(b"a")
    three.clock.advance(LAG_MS_MAX)
    three.two.follow(three.one)
    three.two.follow(three.one)
    assert three.shrink() is None, "3 is not late yet"
    three.clock.advance(1)
    proposal = three.shrink()
    assert proposal is not None
    assert proposal.isr == (1, 2)
    assert three.one.marks == (0, 1), "until the controller agrees, 3 counts: it may be elected"
    assert three.shrink() is None, "one proposal at a time"
    assert three.commit(proposal)
    assert three.one.marks == (1, 1)
    three.one.manager.watermark_moved(three.one.partition)
    three.one.manager.end_turn()
    assert three.one.acknowledged == [1]


def test_a_follower_that_is_always_a_little_behind_stays(three: Three) -> None:
    """It never asks for the end, but always for what was the end at its last fetch."""
    three.one.produce(b"first")
    for _ in range(20):
        for follower in (three.two, three.three):
            response = follower.ask(three.one)
            three.one.produce(b"more")
            follower.take(response)
        three.clock.advance(LAG_MS_MAX // 2)
        assert three.shrink() is None


def test_a_follower_that_catches_up_joins_and_counts_before_the_controller_agrees(three: Three) -> None:
    three.one.lead(1, (1,), ALL)
    three.two.follow_in(1, 1, ALL)
    three.one.produce(b"a")
    three.two.follow(three.one)
    assert not three.one.proposals
    three.two.follow(three.one)
    (proposal,) = three.one.proposals
    assert proposal.isr == (1, 2)
    assert three.one.partition.isr == (1,)
    three.one.produce(b"b")
    assert three.one.marks == (1, 2), "the controller may have agreed already"
    three.commit(proposal)
    assert three.one.partition.isr == (1, 2)
    three.two.follow(three.one)
    three.two.follow(three.one)
    assert three.one.marks == (2, 2)


def test_a_follower_that_the_controller_may_have_added_holds_the_high_watermark_back(three: Three) -> None:
    """However far it has fallen behind since: it may be elected before this leader hears that it is in sync."""
    three.one.lead(1, (1, 2), ALL)
    three.two.follow_in(1, 1, ALL)
    three.three.follow_in(1, 1, ALL)
    three.two.follow(three.one)
    three.three.follow(three.one)
    assert three.one.proposals.pop().isr == ALL, "the answer of the controller does not come"

    three.clock.advance(LAG_MS_MAX + 1)
    three.one.produce_all(b"a")
    for _ in range(3):
        three.two.follow(three.one)
    assert three.one.marks == (0, 1), "3 stands still, and may be in sync by now"
    assert not three.one.acknowledged
    for _ in range(2):
        three.three.follow(three.one)
    assert three.one.acknowledged == [1]


def test_the_high_watermark_waits_for_a_caught_up_follower_outside_the_isr(three: Three) -> None:
    """Else it would run ahead as fast as the follower follows, and the follower would never join."""
    three.alive.discard(2)
    three.one.lead(1, (1,), ALL)
    three.two.follow_in(1, 1, ALL)
    three.two.follow(three.one)
    three.one.produce(b"a")
    assert three.one.marks == (1, 1), "2 is not alive, so it cannot join"
    three.alive.add(2)
    three.two.follow(three.one)
    three.two.follow(three.one)
    three.one.proposals.clear()
    three.one.produce(b"b")
    assert three.one.marks == (1, 2)


def test_a_follower_joins_only_with_everything_from_before_the_epoch(three: Three) -> None:
    """The high watermark of a new leader may lag behind what the one before had committed."""
    three.one.produce(b"a", b"b")
    three.one.lead(1, (1, 3), ALL)
    assert three.one.marks == (0, 2)
    three.two.follow_in(1, 1, ALL)
    three.two.follow(three.one)
    assert not three.one.proposals, "its end is at the high watermark, but before the start of the epoch"
    three.two.follow(three.one)
    assert [proposal.isr for proposal in three.one.proposals] == [(1, 3, 2)]


def test_a_broker_that_is_not_alive_does_not_join(three: Three) -> None:
    three.one.lead(1, (1, 3), ALL)
    three.alive.discard(2)
    three.two.follow_in(1, 1, ALL)
    three.two.follow(three.one)
    assert not three.one.proposals


@pytest.mark.parametrize("error", [ErrorCode.OPERATION_NOT_ATTEMPTED, ErrorCode.INELIGIBLE_REPLICA])
def test_a_proposal_that_was_not_carried_out_is_taken_back(three: Three, error: ErrorCode) -> None:
    three.clock.advance(LAG_MS_MAX + 1)
    proposal = three.shrink()
    assert proposal is not None
    assert not three.one.partition.on_refused(proposal, error)
    assert three.shrink() is not None, "it can be proposed again"


@pytest.mark.parametrize(
    "error",
    [
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.INVALID_UPDATE_VERSION,
        ErrorCode.NEW_LEADER_ELECTED,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.INVALID_REQUEST,
    ],
)
def test_a_leader_that_is_out_of_date_waits_for_the_controller(three: Three, error: ErrorCode) -> None:
    three.clock.advance(LAG_MS_MAX + 1)
    proposal = three.shrink()
    assert proposal is not None
    assert not three.one.partition.on_refused(proposal, error)
    assert three.shrink() is None
    three.one.lead(1, ALL, ALL)
    three.clock.advance(LAG_MS_MAX + 1)
    assert three.shrink() is not None


def test_other_refusals_are_sent_again(three: Three) -> None:
    three.clock.advance(LAG_MS_MAX + 1)
    proposal = three.shrink()
    assert proposal is not None
    assert three.one.partition.on_refused(proposal, ErrorCode.UNKNOWN_SERVER_ERROR)


def test_an_answer_that_comes_after_a_newer_state_changes_nothing(three: Three) -> None:
    three.clock.advance(LAG_MS_MAX + 1)
    proposal = three.shrink()
    assert proposal is not None
    three.one.lead(1, ALL, ALL)
    assert not three.commit(proposal)
    assert not three.one.partition.on_refused(proposal, ErrorCode.UNKNOWN_SERVER_ERROR)
    assert three.one.partition.isr == ALL


def test_an_older_state_of_the_controller_changes_nothing(three: Three) -> None:
    three.one.lead(3, (1, 2), ALL)
    three.one.lead(2, ALL, ALL)
    assert (three.one.partition.leader_epoch, three.one.partition.isr) == (3, (1, 2))


def test_the_same_epoch_with_a_newer_isr_keeps_what_is_known_of_followers(three: Three) -> None:
    three.one.produce(b"a")
    three.clock.advance(LAG_MS_MAX + 1)
    three.two.follow(three.one)
    three.two.follow(three.one)
    three.one.lead(0, (1, 2), ALL, partition_epoch=1)
    assert three.one.marks == (1, 1)


# --- acks=all ---


def test_too_few_in_sync_replicas_refuse_a_write_before_it(tmp_path: Path) -> None:
    three = Three(tmp_path, min_insync_replicas=2)
    three.one.lead(1, (1,), ALL)
    with pytest.raises(ApiError) as refusal:
        three.one.produce_all(b"a")
    assert refusal.value.code == ErrorCode.NOT_ENOUGH_REPLICAS
    assert three.one.produce(b"a") == 1, "acks=1 asks for nothing"
    assert three.one.marks == (0, 1), "and is not committed (KIP-966)"
    three.close()


def test_replicas_lost_after_the_append_are_reported_after_it(tmp_path: Path) -> None:
    three = Three(tmp_path, min_insync_replicas=2)
    three.one.produce_all(b"a")
    assert not three.one.acknowledged
    three.two.follow(three.one)
    three.two.follow(three.one)
    three.three.follow(three.one)
    three.one.partition.replica_set.maximal_isr = (1,)
    three.three.follow(three.one)
    assert three.one.refused == [(1, ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND)]
    three.close()


def test_a_produce_that_waits_is_refused_when_the_leadership_moves(three: Three) -> None:
    three.one.produce_all(b"a")
    three.one.follow_in(1, 2, ALL)
    three.one.manager.watermark_moved(three.one.partition)
    three.one.manager.end_turn()
    assert three.one.refused == [(1, ErrorCode.NOT_LEADER_OR_FOLLOWER)]


def test_a_leader_that_leads_again_knows_nothing_of_its_followers(three: Three) -> None:
    """They may have cut their logs under the leader in between."""
    three.one.produce(b"a", b"b")
    for _ in range(2):
        three.two.follow(three.one)
    assert three.one.remote_end(2) == 2
    three.one.follow_in(1, 2, ALL)
    three.one.lead(2, ALL, ALL)
    assert three.one.remote_end(2) == 0
    assert three.one.marks == (0, 2)


def test_the_low_watermark_is_that_of_the_slowest_live_replica(three: Three) -> None:
    for follower in (three.two, three.three):
        follower.follow(three.one)
    three.one.produce(b"a")
    for _ in range(2):
        three.two.follow(three.one)
        three.three.follow(three.one)
    results: list[int] = []
    three.one.manager.delete_records([("topic", 0, 1)], 30_000, lambda r: results.extend(each[2] for each in r))
    assert not results, "the followers have not deleted yet"
    for _ in range(2):
        three.two.follow(three.one)
    assert not results
    three.alive.discard(3)
    three.two.follow(three.one)
    three.one.manager.watermark_moved(three.one.partition)
    three.one.manager.end_turn()
    assert results == [1]


# --- the way to the controller ---


def answer(proposal: IsrProposal, error: ErrorCode = ErrorCode.NONE) -> AlterPartitionResponse:
    data = PartitionDataResponse(
        error_code=error, leader_id=1, leader_epoch=0, isr=list(proposal.isr), partition_epoch=1
    )
    return AlterPartitionResponse(topics=[TopicDataResponse(topic_id=TOPIC_ID, partitions=[data])])


def test_proposals_go_together_one_request_at_a_time(three: Three) -> None:
    queue = AlterPartitionQueue(1, lambda: 77)
    assert queue.next_request() is None
    three.clock.advance(LAG_MS_MAX + 1)
    proposal = three.shrink()
    assert proposal is not None
    queue.submit(three.one.partition, proposal)
    request = queue.next_request()
    assert request is not None
    assert (request.broker_id, request.broker_epoch, len(request.topics)) == (1, 77, 1)
    assert [state.broker_id for state in request.topics[0].partitions[0].new_isr_with_epochs] == [1]
    assert queue.next_request() is None, "one is under way"
    (outcome,) = queue.on_response(answer(proposal))
    assert outcome.altered is not None
    assert outcome.altered.isr == (1,)
    assert len(queue) == 0


def test_a_proposal_without_an_answer_is_sent_again(three: Three) -> None:
    queue = AlterPartitionQueue(1, lambda: -1)
    queue.submit(three.one.partition, IsrProposal((1,), 0, 0))
    first = queue.next_request()
    assert queue.on_response(AlterPartitionResponse(error_code=ErrorCode.STALE_BROKER_EPOCH)) == []
    assert queue.next_request() == first
    queue.on_failure()
    assert queue.next_request() == first


def test_a_newer_proposal_takes_the_place_of_one_under_way(three: Three) -> None:
    queue = AlterPartitionQueue(1, lambda: -1)
    queue.submit(three.one.partition, IsrProposal((1,), 0, 0))
    queue.next_request()
    queue.submit(three.one.partition, IsrProposal((1, 2), 1, 1))
    queue.on_response(answer(IsrProposal((1,), 0, 0)))
    request = queue.next_request()
    assert request is not None
    assert request.topics[0].partitions[0].new_isr == [1, 2]


def test_a_new_leader_is_settled_once_its_high_watermark_has_caught_up(three: Three) -> None:
    """Until then the end of the log would seem to move backwards to consumers (KIP-207)."""
    three.one.produce(b"a")
    three.two.follow(three.one)
    three.two.lead(1, (2, 3), ALL)
    assert not three.two.partition.is_settled
    three.three.follow_in(1, 2, ALL)
    three.three.follow(three.two)
    three.three.follow(three.two)
    assert three.two.partition.is_settled


def test_a_replica_that_is_gone_does_not_hold_the_high_watermark_back(three: Three) -> None:
    """It was caught up when it left the ISR. No record came after that, so nothing moved the high watermark again."""
    three.one.lead(1, (1, 2), ALL, partition_epoch=1)
    three.two.follow_in(1, 1, ALL)
    three.three.follow_in(1, 1, ALL)
    three.three.follow(three.one)  # caught up with an empty log, and then it stops
    three.one.partition.on_refused(three.one.proposals.pop(), ErrorCode.INELIGIBLE_REPLICA)
    three.one.produce(b"a", b"b")
    three.two.follow(three.one)
    three.two.follow(three.one)
    assert three.one.marks == (0, 2), "3 may join the ISR at any moment"
    three.alive.remove(3)
    three.two.follow(three.one)
    assert three.one.marks == (2, 2)


def test_a_replica_that_leaves_by_reassignment_counts_as_long_as_it_is_in_sync(three: Three) -> None:
    """The controller names the new replicas before it removes the old one from the ISR, and may fail in between."""
    three.one.lead(1, ALL, (1, 2))
    three.two.follow_in(1, 1, (1, 2))
    three.one.produce(b"a")
    three.two.follow(three.one)
    three.two.follow(three.one)
    assert three.one.marks == (0, 1), "3 may still be elected"
    three.one.lead(2, (1, 2), (1, 2))
    assert three.one.marks == (1, 1)
    three.three.follow_in(2, 1, (1, 2))
    with pytest.raises(ApiError) as refusal:
        three.one.partition.check_follower(3, 2)
    assert refusal.value.code is ErrorCode.UNKNOWN_LEADER_EPOCH


def test_a_replica_that_left_the_isr_before_its_reassignment_ended_does_not_come_back(three: Three) -> None:
    three.one.lead(1, ALL, (1, 2))
    three.two.follow_in(1, 1, (1, 2))
    three.three.follow_in(1, 1, (1, 2))
    three.clock.advance(LAG_MS_MAX + 1)
    three.one.produce(b"a")
    three.two.follow(three.one)
    three.two.follow(three.one)
    proposal = three.shrink()
    assert proposal is not None
    assert proposal.isr == (1, 2)
    assert three.commit(proposal)
    three.three.follow(three.one)
    three.three.follow(three.one)
    assert three.one.proposals == []


# --- consumers that have read further than a replica has got ---


def read_at(replica: Replica, offset: int) -> ErrorCode:
    """The answer to a consumer that may read from followers, too, and names no leader epoch."""
    parameters = FetchParameters(-1, 0, 1, 1 << 20, 0, is_first_batch_whole=True, is_leader_only=False)
    found: list[PartitionReply] = []
    wanted = [Wanted(TOPIC, TOPIC, FetchPartition(0, offset, 1 << 20, -1, -1))]
    replica.manager.fetch(parameters, wanted, found.extend, replica.fail)
    return ErrorCode(found[0].error_code)


def test_a_leader_that_hears_of_its_followers_says_that_an_offset_is_beyond_its_end(three: Three) -> None:
    three.one.produce(b"a")
    three.two.follow(three.one)
    assert read_at(three.one, 7) is ErrorCode.OFFSET_OUT_OF_RANGE


def test_a_leader_that_was_replaced_without_knowing_it_sends_no_consumer_back(three: Three) -> None:
    """The consumer has read on from the new leader, and an old response of Metadata led it here again."""
    three.one.produce(b"a")
    three.two.follow(three.one)
    three.clock.advance(SILENCE_MS_MAX + 1)
    assert read_at(three.one, 7) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert read_at(three.one, -1) is ErrorCode.OFFSET_OUT_OF_RANGE


def test_a_leader_that_is_alone_in_the_isr_is_the_leader_however_silent_the_others_are(three: Three) -> None:
    three.one.lead(1, (1,), ALL)
    three.clock.advance(SILENCE_MS_MAX + 1)
    assert read_at(three.one, 7) is ErrorCode.OFFSET_OUT_OF_RANGE


def test_a_follower_that_is_behind_sends_no_consumer_back(three: Three) -> None:
    three.one.produce(b"a", b"b")
    assert read_at(three.two, 2) is ErrorCode.NOT_LEADER_OR_FOLLOWER
