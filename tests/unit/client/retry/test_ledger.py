"""How far a group may commit, and what goes with it."""

from tests.unit.present import present
from tidelog.client import OffsetAndMetadata, TopicPartition
from tidelog.client.retry.ledger import Ledger
from tidelog.client.retry.policy import Forward

P0, P1 = TopicPartition("orders", 0), TopicPartition("orders", 1)


def forward(name: str) -> Forward:
    return Forward(name, 0, None, None, ())


def test_a_retry_is_written_with_the_offset_of_its_record_and_not_before() -> None:
    ledger = Ledger()
    slow, failed, last = ledger.take(P0, [5, 6, 9], 12)
    failed.forwards = (forward("retry"),)
    assert ledger.committable() is None
    slow.forwards = ()
    commit = present(ledger.committable())
    assert commit.places == {P0: OffsetAndMetadata(9)}
    assert [each.topic for each in commit.forwards] == ["retry"]
    last.forwards = ()
    ledger.committed(commit)
    assert len(ledger) == 1
    commit = present(ledger.committable())
    assert (commit.places, commit.forwards) == ({P0: OffsetAndMetadata(12)}, [])
    ledger.committed(commit)
    assert ledger.committable() is None


def test_a_commit_that_failed_is_made_again_whole() -> None:
    ledger = Ledger()
    (entry,) = ledger.take(P0, [0], 1)
    entry.forwards = (forward("retry"),)
    assert ledger.committable() == ledger.committable()


def test_passed_over_records_are_committed_too() -> None:
    ledger = Ledger()
    ledger.take(P0, [], 8)
    assert present(ledger.committable()).places == {P0: OffsetAndMetadata(8)}


def test_a_record_of_a_revoked_partition_may_finish_without_effect() -> None:
    ledger = Ledger()
    (before,) = ledger.take(P0, [3], 4)
    (other,) = ledger.take(P1, [0], 1)
    ledger.drop([P0])
    ledger.take(P0, [3], 4)
    before.forwards = (forward("twice"),)
    other.forwards = ()
    commit = present(ledger.committable())
    assert (commit.places, commit.forwards) == ({P1: OffsetAndMetadata(1)}, [])
