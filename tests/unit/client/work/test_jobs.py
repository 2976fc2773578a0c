from tests.unit.client.share.test_held import ORIGIN, record
from tidelog.client.aio.share.held import HeldRecords
from tidelog.client.aio.share.types import ACCEPTED, RELEASED, Ack, AcknowledgeType, Acks
from tidelog.client.types import TopicPartition
from tidelog.client.work.jobs import Job, Jobs

LOCK_MS = 3_000
RENEWED = Ack(AcknowledgeType.RENEW)


class World:
    """Jobs, and the broker's side of their locks by hand."""

    def __init__(self, *offsets: int) -> None:
        self.held = HeldRecords()
        self.jobs = Jobs(self.held)
        self.lock(*offsets, now_ms=0)

    def lock(self, *offsets: int, now_ms: int) -> None:
        self.held.arrive(ORIGIN, [record(offset) for offset in offsets], now_ms + LOCK_MS)
        self.deliver(now_ms)

    def deliver(self, now_ms: int) -> None:
        self.jobs.take(self.held.deliver(now_ms, 99), now_ms, LOCK_MS)

    def begin(self) -> Job:
        job = self.jobs.begin()
        assert job is not None
        return job

    def sent(self) -> Acks:
        self.jobs.settle()
        return self.held.take()


def test_jobs_begin_in_order_and_are_acknowledged_as_they_end() -> None:
    world = World(1, 2)
    first, second = world.begin(), world.begin()
    assert (first.key, second.key, world.jobs.begin()) == (("t", 0, 1), ("t", 0, 2), None)
    world.jobs.done(second, ACCEPTED)
    assert len(world.jobs) == 1
    assert world.sent() == {ORIGIN: {2: ACCEPTED}}
    world.jobs.done(first, RELEASED)
    assert world.sent() == {ORIGIN: {1: RELEASED}}


def test_locks_are_renewed_before_they_end_whether_a_job_runs_or_waits() -> None:
    world = World(1, 2)
    world.begin()
    assert world.jobs.next_renewal_ms() == LOCK_MS // 3
    world.jobs.renew(LOCK_MS // 3 - 1)
    assert world.sent() == {}
    world.jobs.renew(LOCK_MS // 3)
    assert world.sent() == {ORIGIN: {1: RENEWED, 2: RENEWED}}
    assert world.jobs.next_renewal_ms() is None


def test_a_renewed_lock_starts_no_second_job() -> None:
    world = World(1)
    world.begin()
    world.jobs.renew(LOCK_MS)
    world.sent()
    world.held.renewed(ORIGIN, 1, 2 * LOCK_MS)
    world.deliver(LOCK_MS)
    assert world.jobs.begin() is None
    assert world.jobs.next_renewal_ms() == LOCK_MS + LOCK_MS // 3


def test_a_job_that_ends_during_a_renewal_is_acknowledged_after_it() -> None:
    world = World(1)
    job = world.begin()
    world.jobs.renew(LOCK_MS)
    world.sent()
    world.jobs.done(job, ACCEPTED)
    assert world.sent() == {}
    assert world.jobs.waits_for_locks
    world.held.renewed(ORIGIN, 1, 2 * LOCK_MS)
    world.deliver(LOCK_MS)
    assert world.sent() == {ORIGIN: {1: ACCEPTED}}
    assert not world.jobs.waits_for_locks


def test_a_job_whose_lock_is_lost_ends_without_an_acknowledgement_and_one_that_waits_never_begins() -> None:
    world = World(1, 2)
    job = world.begin()
    world.jobs.renew(LOCK_MS)
    world.sent()
    for offset in (1, 2):
        world.held.renewed(ORIGIN, offset, None)
    world.jobs.refused(TopicPartition("t", 0), [1, 2])
    world.deliver(LOCK_MS)
    assert world.jobs.begin() is None
    world.jobs.done(job, ACCEPTED)
    assert world.sent() == {}
    assert world.jobs.lost == 2
    assert len(world.jobs) == 0


def test_a_record_that_comes_again_while_it_is_handled_belongs_to_the_job_that_handles_it() -> None:
    """Its lock was lost, and the broker has locked it for this worker once more."""
    world = World(1)
    job = world.begin()
    world.lock(1, now_ms=2 * LOCK_MS)
    assert world.jobs.begin() is None
    world.jobs.done(job, ACCEPTED)
    assert world.sent() == {ORIGIN: {1: ACCEPTED}}
