"""What the driver asks a cluster, through leaders that move and brokers that restart."""

import pytest

from tests.unit.spark.source.fakes import offsets, stream_settings, tp
from tidelog.client.cluster import Node
from tidelog.client.errors import BrokerUnavailable
from tidelog.client.types import TopicPartition
from tidelog.spark.source.cluster_view import ClusterView
from tidelog.wire.errors import ApiError, ErrorCode
from tidelog.wire.messages import ListOffsetsResponse, MetadataResponse
from tidelog.wire.messages.list_offsets import ListOffsetsPartitionResponse, ListOffsetsTopicResponse
from tidelog.wire.messages.metadata import MetadataResponsePartition, MetadataResponseTopic


class Time:
    def __init__(self):
        self.now = 0.0

    def monotonic(self):
        return self.now

    def sleep(self, seconds):
        self.now += seconds


class FakeCluster:
    """Two brokers; partition p is led by broker p % 2. `troubles` are raised, or answered by leaders, one by one."""

    def __init__(self, **logs):
        self.logs = {tp(name.replace("_", "-")): bounds for name, bounds in logs.items()}
        self.internal = set()
        self.metadata_troubles = []
        self.troubles = []
        self.requests = []
        self.described = 0
        self.controller_id = 0

    def metadata(self, topics):
        self.described += 1
        trouble = self.metadata_troubles.pop(0) if self.metadata_troubles else None
        if isinstance(trouble, Exception):
            raise trouble
        names = sorted({each.topic for each in self.logs}) if topics is None else topics
        return MetadataResponse(controller_id=self.controller_id, topics=[self._topic(name, trouble) for name in names])

    def _topic(self, name, trouble):
        partitions = [
            MetadataResponsePartition(partition_index=each.partition) for each in self.logs if each.topic == name
        ]
        code = trouble or (ErrorCode.NONE if partitions else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return MetadataResponseTopic(
            name=name,
            topic_id=b"i" * 16,
            error_code=code,
            is_internal=name in self.internal,
            partitions=[] if code else partitions,
        )

    def leader_of(self, topic, partition):
        if TopicPartition(topic, partition) not in self.logs:
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return Node(partition % 2, f"b{partition % 2}", 1)

    def on_node(self, node, request, answer):
        self.requests.append((node.node_id, request))
        trouble = self.troubles.pop(0) if self.troubles else ErrorCode.NONE
        if isinstance(trouble, Exception):
            raise trouble
        topics = []
        for topic in request.topics:
            told = []
            for each in topic.partitions:
                first, last = self.logs.get(TopicPartition(topic.name, each.partition_index), (0, 0))
                offset = {-2: first, -1: last}.get(each.timestamp, -1)
                told.append(
                    ListOffsetsPartitionResponse(
                        partition_index=each.partition_index, error_code=trouble, offset=-1 if trouble else offset
                    )
                )
            topics.append(ListOffsetsTopicResponse(name=topic.name, partitions=told))
        return ListOffsetsResponse(topics=topics)

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


def test_all_leaders_are_asked_once_each():
    cluster = FakeCluster(t_0=(1, 5), t_1=(2, 6), t_2=(3, 7))
    view, _ = _view(cluster)
    assert view.earliest(view.partitions()) == offsets(t_0=1, t_1=2, t_2=3)
    assert [node for node, _ in cluster.requests] == [0, 1]


def test_ends_are_those_of_committed_records_if_only_these_are_read():
    cluster = FakeCluster(t_0=(0, 5))
    view, _ = _view(cluster, **{"kafka.isolation.level": "read_committed"})
    view.latest(view.partitions())
    assert cluster.requests[0][1].isolation_level == 1


def test_times_without_a_record_are_none():
    cluster = FakeCluster(t_0=(0, 5))
    view, _ = _view(cluster)
    assert view.at_times(offsets(t_0=123)) == {tp("t-0"): None}


@pytest.mark.parametrize(
    "trouble", [ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.OFFSET_NOT_AVAILABLE, BrokerUnavailable("b:1", "refused")]
)
def test_leaders_that_move_are_asked_again(trouble):
    cluster = FakeCluster(t_0=(0, 5), t_1=(0, 6))
    cluster.troubles = [trouble]
    view, clock = _view(cluster)
    assert view.latest(view.partitions()) == offsets(t_0=5, t_1=6)
    assert 0 < clock.now < 1


def test_what_was_answered_is_not_asked_again():
    cluster = FakeCluster(t_0=(0, 5), t_1=(0, 6))
    cluster.troubles = [ErrorCode.NONE, ErrorCode.NOT_LEADER_OR_FOLLOWER]
    view, _ = _view(cluster)
    view.latest(view.partitions())
    assert [node for node, _ in cluster.requests] == [0, 1, 1]


def test_patience_ends_with_the_api_timeout_and_sooner_at_first_contact():
    cluster = FakeCluster(t_0=(0, 5))
    cluster.metadata_troubles = [BrokerUnavailable("b:1", "refused")] * 1000
    view, clock = _view(cluster)
    with pytest.raises(BrokerUnavailable):
        view.partitions()
    assert 9 < clock.now <= 10
    cluster.metadata_troubles = []
    view.partitions()
    cluster.metadata_troubles = [BrokerUnavailable("b:1", "refused")] * 1000
    clock.now = 0.0
    with pytest.raises(BrokerUnavailable):
        view.partitions()
    assert 59 < clock.now <= 60


def test_refusals_that_will_not_pass_are_raised_at_once():
    cluster = FakeCluster(t_0=(0, 5))
    cluster.metadata_troubles = [ErrorCode.TOPIC_AUTHORIZATION_FAILED]
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
    cluster.metadata_troubles = [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION] * 2
    assert view.partitions() == [tp("t-0")]
    cluster.logs.clear()
    assert view.partitions() == []


def test_a_topic_of_the_checkpoint_is_not_gone_because_the_first_answers_lack_it():
    """After a restart of everything, the brokers know their topics later than the query asks for them."""
    cluster = FakeCluster(t_0=(0, 5))
    cluster.metadata_troubles = [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION] * 5
    view, clock = _view(cluster)
    assert view.partitions([tp("t-0")]) == [tp("t-0")]
    assert clock.now > 3
    cluster.logs.clear()
    assert view.partitions([tp("t-0")]) == []
    assert view.partitions() == [], "it is known to be gone now"


def test_answers_without_a_controller_do_not_count():
    cluster = FakeCluster(t_0=(0, 5))
    cluster.metadata_troubles = [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION] * 20
    cluster.controller_id = -1
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
    cluster.troubles = [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    view, _ = _view(cluster)
    assert view.latest([tp("t-0")]) == offsets(t_0=5)


def test_a_view_can_be_closed():
    cluster = FakeCluster()
    view, _ = _view(cluster)
    view.close()
    assert cluster.is_closed
