"""Routing and retries, against a broker that follows a script."""

import socket

import pytest

from tests.integration.client.scripted_broker import ScriptedBroker
from tidelog.client.cluster import ClusterClient
from tidelog.client.errors import ApiError, BrokerUnavailable, ConnectionLost
from tidelog.wire.errors import ErrorCode
from tidelog.wire.messages import MetadataRequest


def answers(*errors, partitions=2):
    """A script that answers Metadata with each error in turn, and the last one for ever."""
    left = list(errors)

    def script(request):
        error = left.pop(0) if len(left) > 1 else left[0]
        name = request.topics[0].name if request.topics else "nobody-asked"
        return script.broker.metadata(name, partitions, error)

    return script


def scripted(script):
    broker = ScriptedBroker({MetadataRequest: script})
    script.broker = broker
    return broker


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as unused:
        return unused.getsockname()[1]


def test_partitions_are_learned_once():
    with scripted(answers(ErrorCode.NONE)) as broker, ClusterClient(broker.address) as cluster:
        assert cluster.partitions("t") == [0, 1]
        assert cluster.partitions("t") == [0, 1]
        assert len(broker.requests(MetadataRequest)) == 1
        assert cluster.leader_of("t", 1).node_id == 7


def test_a_leader_election_is_waited_out():
    script = answers(ErrorCode.LEADER_NOT_AVAILABLE, ErrorCode.LEADER_NOT_AVAILABLE, ErrorCode.NONE)
    with scripted(script) as broker, ClusterClient(broker.address) as cluster:
        assert cluster.partitions("t") == [0, 1]
        assert len(broker.requests(MetadataRequest)) == 3


def test_an_election_that_does_not_end_is_reported_after_the_timeout():
    endless = scripted(answers(ErrorCode.LEADER_NOT_AVAILABLE))
    with endless, ClusterClient(endless.address, timeout_s=0.05) as cluster, pytest.raises(ApiError) as caught:
        cluster.partitions("t")
    assert caught.value.code is ErrorCode.LEADER_NOT_AVAILABLE


def test_an_unknown_topic_is_reported_at_once_and_by_name():
    with scripted(answers(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)) as broker, ClusterClient(broker.address) as cluster:
        with pytest.raises(ApiError, match="'no-such'"):
            cluster.partitions("no-such")
        assert len(broker.requests(MetadataRequest)) == 1


def test_a_partition_the_topic_lacks_is_an_error_that_says_how_many_there_are():
    complaint = pytest.raises(ApiError, match="no partition 5: it has 2")
    with scripted(answers(ErrorCode.NONE)) as broker, ClusterClient(broker.address) as cluster, complaint:
        cluster.leader_of("t", 5)


def test_topics_are_created_by_asking_only_when_allowed():
    with scripted(answers(ErrorCode.NONE)) as broker, ClusterClient(broker.address) as cluster:
        cluster.partitions("a")
        cluster.partitions("b", may_create=True)
        assert [request.allow_auto_topic_creation for request in broker.requests(MetadataRequest)] == [False, True]


def test_a_dead_bootstrap_server_is_passed_over():
    live = scripted(answers(ErrorCode.NONE))
    with live, ClusterClient([f"127.0.0.1:{free_port()}", live.address]) as cluster:
        assert cluster.partitions("t") == [0, 1]


def test_when_no_bootstrap_server_answers_all_of_them_are_named():
    first, second = free_port(), free_port()
    complaint = pytest.raises(BrokerUnavailable, match=rf":{first} .*:{second} .*--bootstrap-server")
    with ClusterClient(f"127.0.0.1:{first},127.0.0.1:{second}") as cluster, complaint:
        cluster.metadata()


def test_a_lost_connection_is_retried_only_where_that_is_safe():
    attempts = []

    def attempt():
        attempts.append(1)
        if len(attempts) < 3:
            raise ConnectionLost("b:1", "gone")
        return "done"

    cluster = ClusterClient("b:1")
    with pytest.raises(ConnectionLost):
        cluster.retrying(attempt)
    assert cluster.retrying(attempt, even_if_lost=True) == "done"
    assert len(attempts) == 3


def test_a_connection_that_broke_is_opened_again_for_the_next_question():
    answer = answers(ErrorCode.NONE)
    hang_ups = [True]

    def script(request):
        return None if hang_ups and hang_ups.pop() else answer(request)

    script_broker = ScriptedBroker({MetadataRequest: script})
    answer.broker = script_broker
    with script_broker as broker, ClusterClient(broker.address) as cluster:
        with pytest.raises(BrokerUnavailable):
            cluster.metadata(["t"])
        assert cluster.partitions("t") == [0, 1]
        assert broker.connections == 2
