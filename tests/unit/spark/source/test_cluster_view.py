"""What the driver asks a cluster, through leaders that move and brokers that restart."""

import pytest

from tests.unit.spark.source.fakes import offsets, stream_settings, tp
from tidelog.client.aio.admin.driver import PartlyRefused
from tidelog.client.aio.admin.types import ListedOffset
from tidelog.client.aio.metadata import PartitionMetadata, TopicMetadata
from tidelog.client.cluster import TopicsSeen
from tidelog.client.errors import ApiError
from tidelog.spark.source.cluster_view import ClusterView
from tidelog.wire.errors import ErrorCode

UNKNOWN = "the broker does not know the topics"


class Time:
    def __init__(self):
        self.now = 0.0

    def monotonic(self):
        return self.now

    def sleep(self, seconds):
        self.now += seconds


class FakeCluster:
    """What a view uses of `Cluster`. `troubles` are answers to metadata, one by one: an error, or topics unknown."""

    def __init__(self, **logs):
        self.logs = {tp(name.replace("_", "-")): bounds for name, bounds in logs.items()}
        self.internal = set()
        self.troubles = []
        self.unknown_to_leader = []
        self.asked = []
        self.described = 0
        self.has_controller = True

    def look_at_topics(self, topics):
        self.described += 1
        trouble = self.troubles.pop(0) if self.troubles else None
        if isinstance(trouble, Exception):
            raise trouble
        names = {each.topic for each in self.logs}
        found = {} if trouble else {name: self._topic(name) for name in names if topics is None or name in topics}
        return TopicsSeen(found, self.has_controller)

    def _topic(self, name):
        partitions = [PartitionMetadata(name, each.partition) for each in sorted(self.logs) if each.topic == name]
        return TopicMetadata(name, b"i" * 16, name in self.internal, 0, tuple(partitions))

    def list_offsets(self, times, *, read_committed):
        self.asked.append((dict(times), read_committed))
        unknown = self.unknown_to_leader.pop(0) if self.unknown_to_leader else set()
        found, errors = {}, {}
        for where, time in times.items():
            if where in unknown or where not in self.logs:
                errors[where] = ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, str(where))
            else:
                first, last = self.logs[where]
                found[where] = ListedOffset({-2: first, -1: last}.get(time, -1), -1, -1)
        if len(errors) == 1 and not found:
            raise next(iter(errors.values()))
        if errors:
            raise PartlyRefused(errors, found)
        return found

    def forget(self):
        pass

    def close(self):
        self.is_closed = True


def _view(cluster, **options):
    clock = Time()
    view = ClusterView(stream_settings(**options), cluster, monotonic=clock.monotonic, sleep=clock.sleep)
    return view, clock


def test_partitions_of_the_topics_that_are_there():
    view, _ = _view(FakeCluster(t_0=(0, 1), t_1=(0, 1), u_0=(0, 1)))
    assert view.partitions() == [tp("t-0"), tp("t-1")]
    assert view.missing() == []
    assert view.topic_ids() == {"t": b"i" * 16}


def test_a_missing_topic_is_no_error_here():
    view, _ = _view(FakeCluster(u_0=(0, 1)))
    assert view.partitions() == []
    assert view.missing() == ["topic 't'"]


def test_metadata_is_asked_for_every_time_unless_it_may_be_kept():
    cluster = FakeCluster(t_0=(0, 1))
    view, _ = _view(cluster)
    view.partitions()
    view.partitions()
    assert cluster.described == 2
    cluster = FakeCluster(t_0=(0, 1))
    view, clock = _view(cluster, **{"partition.metadata.cache.ttl.ms": "1000"})
    view.partitions()
    view.partitions()
    assert cluster.described == 1
    clock.now += 1.0
    view.partitions()
    assert cluster.described == 2


def test_offsets_of_all_partitions_are_asked_for_at_once():
    cluster = FakeCluster(t_0=(1, 5), t_1=(2, 6), t_2=(3, 7))
    view, _ = _view(cluster)
    assert view.earliest(view.partitions()) == offsets(t_0=1, t_1=2, t_2=3)
    assert len(cluster.asked) == 1


def test_ends_are_those_of_committed_records_if_only_these_are_read():
    cluster = FakeCluster(t_0=(0, 5))
    view, _ = _view(cluster, **{"kafka.isolation.level": "read_committed"})
    view.latest(view.partitions())
    assert cluster.asked[0][1]


def test_times_without_a_record_are_none():
    cluster = FakeCluster(t_0=(0, 5))
    view, _ = _view(cluster)
    assert view.at_times(offsets(t_0=123)) == {tp("t-0"): None}


def test_refusals_are_raised_at_once():
    """The client has repeated what may pass."""
    cluster = FakeCluster(t_0=(0, 5))
    cluster.troubles = [ApiError(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "topic 't'")]
    view, clock = _view(cluster)
    with pytest.raises(ApiError, match="topic 't'"):
        view.partitions()
    assert clock.now == 0


def test_an_end_before_what_was_read_is_looked_up_again():
    """A leader that was just elected may not know yet how far it may be read."""
    cluster = FakeCluster(t_0=(0, 5))
    view, clock = _view(cluster)
    assert view.latest([tp("t-0")], offsets(t_0=3)) == offsets(t_0=5)
    assert clock.now == 0
    assert view.latest([tp("t-0")], offsets(t_0=9)) == offsets(t_0=5)
    assert clock.now == pytest.approx(0.03), "fetchOffset.numRetries times fetchOffset.retryIntervalMs"


def test_partitions_that_are_gone_are_left_out():
    view, _ = _view(FakeCluster(t_0=(0, 5)))
    assert view.latest([tp("t-0"), tp("t-1")]) == offsets(t_0=5)


def test_a_topic_is_gone_only_after_a_second_look():
    """A broker that has just started may not know its topics yet; to believe it would be to report a loss."""
    cluster = FakeCluster(t_0=(0, 5))
    view, _ = _view(cluster)
    view.partitions()
    cluster.troubles = [UNKNOWN] * 2
    assert view.partitions() == [tp("t-0")]
    cluster.logs.clear()
    assert view.partitions() == []


def test_a_topic_of_the_checkpoint_is_not_gone_because_the_first_answers_lack_it():
    """After a restart of everything, the brokers know their topics later than the query asks for them."""
    cluster = FakeCluster(t_0=(0, 5))
    cluster.troubles = [UNKNOWN] * 5
    view, clock = _view(cluster)
    assert view.partitions([tp("t-0")]) == [tp("t-0")]
    assert clock.now > 3
    cluster.logs.clear()
    assert view.partitions([tp("t-0")]) == []
    assert view.partitions() == [], "it is known to be gone now"


def test_answers_without_a_controller_do_not_count():
    cluster = FakeCluster(t_0=(0, 5))
    cluster.troubles = [UNKNOWN] * 20
    cluster.has_controller = False
    view, clock = _view(cluster)
    assert view.partitions([tp("t-0")]) == [tp("t-0")]
    assert 20 < clock.now < 60


def test_a_partition_that_an_answer_lacks_is_looked_for_again():
    cluster = FakeCluster(t_0=(0, 5))
    view, clock = _view(cluster)
    assert view.partitions([tp("t-0"), tp("t-1"), tp("other-0")]) == [tp("t-0")]
    assert clock.now > 10
    clock.now = 0.0
    assert view.partitions([tp("t-0"), tp("other-0")]) == [tp("t-0")]
    assert clock.now == 0, "what the options do not name is not waited for"


def test_a_leader_that_does_not_know_its_partition_yet_is_asked_again():
    cluster = FakeCluster(t_0=(0, 5))
    cluster.unknown_to_leader = [{tp("t-0")}]
    view, _ = _view(cluster)
    assert view.latest([tp("t-0"), tp("t-1")]) == offsets(t_0=5)
    assert [set(times) for times, _ in cluster.asked] == [{tp("t-0"), tp("t-1")}, {tp("t-0")}]


def test_a_view_can_be_closed():
    cluster = FakeCluster()
    view, _ = _view(cluster)
    view.close()
    assert cluster.is_closed
