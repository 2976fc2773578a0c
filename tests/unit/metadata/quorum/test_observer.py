"""How an observer finds the leader, follows its log, and what of it is replayed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.metadata.quorum.logs import batch, fetched, open_copy, piece, topics
from tidelog.metadata.quorum.frames import MetadataRecordError
from tidelog.metadata.quorum.log_copy import Leadership, MetadataLog, SnapshotId
from tidelog.metadata.quorum.observer import (
    FIRST_BOOTSTRAP,
    Address,
    Identity,
    Observer,
    QuorumError,
    Replayer,
)
from tidelog.metadata.quorum.records import BeginTransactionRecord, EndTransactionRecord, TopicRecord
from tidelog.wire.errors import ErrorCode
from tidelog.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse
from tidelog.wire.messages.fetch_snapshot import FetchSnapshotRequest

BOOTSTRAP = [Address("a", 1), Address("b", 2)]


def observer_of(copy: MetadataLog, copy_bytes_max: int = 100 << 20) -> Observer:
    return Observer(copy, Identity(4, "cluster", b"d" * 16), BOOTSTRAP, copy_bytes_max=copy_bytes_max)


@pytest.fixture
def copy(tmp_path: Path) -> MetadataLog:
    return open_copy(tmp_path)


@pytest.fixture
def following(copy: MetadataLog) -> Observer:
    """An observer that knows the leader, and has two records of which one is committed."""
    observer = observer_of(copy)
    observer.on_answer(fetched(topics(0, "t") + topics(1, "u"), high_watermark=1))
    return observer


def asked(observer: Observer) -> FetchPartition:
    request = observer.next_question().request
    assert isinstance(request, FetchRequest)
    return request.topics[0].partitions[0]


def names(replayer: Replayer) -> set[str]:
    return set(replayer.state.topic_ids)


def test_bootstrap_servers_are_asked_in_turn_until_one_names_the_leader(copy: MetadataLog) -> None:
    observer = observer_of(copy)
    assert observer.next_question().node_id == FIRST_BOOTSTRAP
    observer.on_failure()
    assert observer.next_question().node_id == FIRST_BOOTSTRAP - 1
    assert observer.address_of(FIRST_BOOTSTRAP - 1) == Address("b", 2)
    assert not observer.on_answer(fetched(error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER, leader=(-1, 1)))
    assert observer.next_question().node_id == FIRST_BOOTSTRAP
    assert not observer.on_answer(fetched(error_code=ErrorCode.FENCED_LEADER_EPOCH, leader=(3001, 7)))
    question = observer.next_question()
    assert (question.node_id, observer.address_of(3001)) == (3001, Address("c1", 9094))
    assert asked(observer).current_leader_epoch == 7
    assert observer.leader_id == 3001


def test_the_request_says_who_asks_and_how_far_the_copy_is(following: Observer) -> None:
    request = following.next_question().request
    assert isinstance(request, FetchRequest)
    assert (request.cluster_id, request.replica_state.replica_id) == ("cluster", 4)
    partition = asked(following)
    assert (partition.fetch_offset, partition.last_fetched_epoch, partition.high_watermark) == (2, 1, 1)
    assert partition.replica_directory_id == b"d" * 16


def test_a_leader_that_is_silent_is_looked_for_anew(following: Observer) -> None:
    assert following.next_question().node_id == 3000
    following.on_failure()
    assert following.leader_id == -1
    assert following.next_question().node_id <= FIRST_BOOTSTRAP


def test_an_earlier_leader_is_not_followed(following: Observer) -> None:
    following.on_answer(fetched(error_code=ErrorCode.FENCED_LEADER_EPOCH, leader=(3001, 3)))
    following.on_answer(fetched(error_code=ErrorCode.UNKNOWN_LEADER_EPOCH, leader=(3000, 2)))
    assert following.leadership.epoch == 3


def test_only_what_is_committed_is_replayed(copy: MetadataLog, following: Observer) -> None:
    replayer = Replayer(copy)
    touched = replayer.advance(following)
    assert names(replayer) == {"t"}
    assert touched.topics == {b"t" * 16: "t"}
    assert not following.is_current or following.high_watermark == 1
    following.on_answer(fetched(high_watermark=2))
    assert replayer.advance(following).topics == {b"u" * 16: "u"}
    assert following.is_current
    assert not replayer.advance(following)


def test_a_transaction_is_replayed_at_its_end(copy: MetadataLog) -> None:
    observer, replayer = observer_of(copy), Replayer(copy)
    begun = batch(0, [BeginTransactionRecord(), TopicRecord(name="t", topic_id=b"t" * 16)])
    observer.on_answer(fetched(begun, high_watermark=2))
    assert not replayer.advance(observer)
    observer.on_answer(fetched(batch(2, [EndTransactionRecord()]), high_watermark=3))
    assert replayer.advance(observer).topics == {b"t" * 16: "t"}
    assert replayer.next_offset == 3


def test_records_that_the_leader_does_not_have_are_cut_off(copy: MetadataLog, following: Observer) -> None:
    assert following.on_answer(fetched(diverging=(1, 1), leader=(3001, 2)))
    assert copy.end_offset == 1
    assert asked(following).fetch_offset == 1
    following.on_answer(fetched(topics(1, "v", epoch=2), high_watermark=2, leader=(3001, 2)))
    replayer = Replayer(copy)
    replayer.advance(following)
    assert names(replayer) == {"t", "v"}


def test_a_leader_that_lacks_what_was_committed_is_an_error(following: Observer) -> None:
    with pytest.raises(MetadataRecordError, match="another history"):
        following.on_answer(fetched(diverging=(0, 0), leader=(3001, 2)))


def test_a_snapshot_comes_in_pieces_and_takes_the_place_of_the_log(copy: MetadataLog, following: Observer) -> None:
    replayer = Replayer(copy)
    replayer.advance(following)
    snapshot = topics(0, "xyz")
    following.on_answer(fetched(snapshot=(1, 50)))
    request = following.next_question().request
    assert isinstance(request, FetchSnapshotRequest)
    assert request.topics[0].partitions[0].snapshot_id.end_offset == 50
    following.on_answer(piece(snapshot[:10], 0, len(snapshot)))
    request = following.next_question().request
    assert isinstance(request, FetchSnapshotRequest)
    assert request.topics[0].partitions[0].position == 10
    following.on_answer(piece(snapshot[10:], 10, len(snapshot)))
    partition = asked(following)
    assert (partition.fetch_offset, partition.last_fetched_epoch) == (50, 1)
    touched = replayer.advance(following)
    assert names(replayer) == {"x", "y", "z"}
    assert set(touched.topics.values()) == {"t", "x", "y", "z"}, "what is gone has changed, too"
    assert replayer.next_offset == 50


def test_a_snapshot_that_is_gone_is_asked_for_anew(following: Observer) -> None:
    following.on_answer(fetched(snapshot=(1, 50)))
    following.on_answer(piece(b"", 0, 0, error_code=ErrorCode.SNAPSHOT_NOT_FOUND))
    assert isinstance(following.next_question().request, FetchRequest)


def test_a_damaged_snapshot_is_an_error_and_not_kept(copy: MetadataLog, following: Observer) -> None:
    damaged = bytearray(topics(0, "xyz"))
    damaged[-1] ^= 1
    following.on_answer(fetched(snapshot=(1, 50)))
    with pytest.raises(MetadataRecordError, match="damaged"):
        following.on_answer(piece(bytes(damaged), 0, len(damaged)))
    assert copy.snapshot is None


def test_a_large_copy_begins_again_once_the_leaders_log_does_and_what_is_known_stays(copy: MetadataLog) -> None:
    observer, replayer = observer_of(copy, copy_bytes_max=50), Replayer(copy)
    observer.on_answer(fetched(topics(0, "t") + topics(1, "u"), high_watermark=2))
    replayer.advance(observer)
    assert copy.end_offset == 2, "the leader has nothing shorter"
    observer.on_answer(fetched(topics(2, "v"), high_watermark=3, start_offset=2))
    assert asked(observer).fetch_offset == 0
    assert not replayer.advance(observer)
    snapshot = topics(0, "tu")
    observer.on_answer(fetched(snapshot=(1, 2), start_offset=2))
    observer.on_answer(piece(snapshot, 0, len(snapshot)))
    observer.on_answer(fetched(topics(2, "v") + topics(3, "w"), high_watermark=4, start_offset=2))
    assert replayer.advance(observer).topics == {b"v" * 16: "v", b"w" * 16: "w"}
    assert names(replayer) == set("tuvw")


def test_a_start_goes_on_with_the_copy(tmp_path: Path) -> None:
    copy = open_copy(tmp_path)
    observer = observer_of(copy)
    snapshot = topics(0, "t")
    observer.on_answer(fetched(snapshot=(1, 10), leader=(3001, 2)))
    observer.on_answer(piece(snapshot, 0, len(snapshot)))
    observer.on_answer(fetched(topics(10, "u", epoch=2), high_watermark=11, leader=(3001, 2)))
    copy.close()
    again = open_copy(tmp_path)
    assert (again.snapshot, again.end_offset, again.last_epoch) == (SnapshotId(10, 1), 11, 2)
    assert again.read_leadership() == Leadership(3001, 2)
    observer, replayer = observer_of(again), Replayer(again)
    assert names(replayer) == {"t"}
    assert asked(observer).current_leader_epoch == 2
    observer.on_answer(fetched(high_watermark=11, leader=(3001, 2)))
    replayer.advance(observer)
    assert names(replayer) == {"t", "u"}


def test_a_log_whose_snapshot_is_lost_is_copied_again(tmp_path: Path) -> None:
    copy = open_copy(tmp_path)
    copy.install_snapshot(SnapshotId(10, 1), topics(0, "t"))
    copy.append(topics(10, "u"))
    copy.close()
    (tmp_path / "__cluster_metadata-0" / SnapshotId(10, 1).file_name).unlink()
    again = open_copy(tmp_path)
    assert (again.snapshot, again.start_offset, again.end_offset) == (None, 0, 0)


def test_a_leadership_that_cannot_be_read_is_none(tmp_path: Path) -> None:
    copy = open_copy(tmp_path)
    (tmp_path / "__cluster_metadata-0" / "quorum-state").write_text("{")
    assert copy.read_leadership() == Leadership()


def test_the_controllers_of_another_cluster_are_an_error_that_says_so(copy: MetadataLog) -> None:
    observer = observer_of(copy)
    with pytest.raises(QuorumError, match="another cluster"):
        observer.on_answer(FetchResponse(error_code=ErrorCode.INCONSISTENT_CLUSTER_ID))
    assert not observer.on_answer(FetchResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED))


def test_a_record_that_contradicts_the_metadata_is_named_with_its_offset(copy: MetadataLog) -> None:
    from tidelog.metadata.quorum.records import RemoveTopicRecord

    observer = observer_of(copy)
    observer.on_answer(fetched(batch(0, [RemoveTopicRecord(topic_id=b"t" * 16)]), high_watermark=1))
    with pytest.raises(MetadataRecordError, match="at offset 0"):
        Replayer(copy).advance(observer)
