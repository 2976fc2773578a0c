import pytest

from tests.integration.client.scripted_broker import ScriptedBroker
from tidelog.client.cluster import ClusterClient
from tidelog.client.errors import ApiError
from tidelog.client.topics import CreatedTopic, NewTopic, add_partitions, create_topic, delete_topic
from tidelog.wire.errors import ErrorCode
from tidelog.wire.messages import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    MetadataRequest,
)
from tidelog.wire.messages.create_partitions import CreatePartitionsTopicResult
from tidelog.wire.messages.create_topics import CreatableTopicResult
from tidelog.wire.messages.delete_topics import DeletableTopicResult

TOPIC_ID = bytes(range(16))


def controller(*errors):
    """A broker that answers every change of a topic with each error in turn, then with success."""
    left = list(errors)

    def outcome():
        error = left.pop(0) if left else ErrorCode.NONE
        return {"name": "t", "error_code": error, "error_message": "because" if error else None}

    broker = ScriptedBroker(
        {
            MetadataRequest: lambda request: broker.metadata("t", 1),
            CreateTopicsRequest: lambda request: CreateTopicsResponse(
                topics=[CreatableTopicResult(**outcome(), topic_id=TOPIC_ID, num_partitions=3, replication_factor=2)]
            ),
            DeleteTopicsRequest: lambda request: DeleteTopicsResponse(responses=[DeletableTopicResult(**outcome())]),
            CreatePartitionsRequest: lambda request: CreatePartitionsResponse(
                results=[CreatePartitionsTopicResult(**outcome())]
            ),
        }
    )
    return broker


def test_a_topic_is_created_by_counts_and_settings():
    with controller() as broker, ClusterClient(broker.address) as cluster:
        made = create_topic(cluster, NewTopic("t", 3, 2, {"retention.ms": "1"}), validate_only=True)
        assert made == CreatedTopic("t", TOPIC_ID, 3, 2)
        (request,) = broker.requests(CreateTopicsRequest)
    assert request.validate_only
    (topic,) = request.topics
    assert (topic.name, topic.num_partitions, topic.replication_factor, topic.assignments) == ("t", 3, 2, [])
    assert [(config.name, config.value) for config in topic.configs] == [("retention.ms", "1")]


def test_an_assignment_stands_in_for_the_counts():
    with controller() as broker, ClusterClient(broker.address) as cluster:
        create_topic(cluster, NewTopic("t", 9, 9, assignment=[[0, 1], [1, 2]]))
        (topic,) = broker.requests(CreateTopicsRequest)[0].topics
    assert (topic.num_partitions, topic.replication_factor) == (-1, -1)
    assert [(part.partition_index, part.broker_ids) for part in topic.assignments] == [(0, [0, 1]), (1, [1, 2])]


def test_the_controller_is_looked_for_again_when_it_moved():
    with controller(ErrorCode.NOT_CONTROLLER) as broker, ClusterClient(broker.address) as cluster:
        create_topic(cluster, NewTopic("t"))
        assert len(broker.requests(CreateTopicsRequest)) == 2
        assert len(broker.requests(MetadataRequest)) == 2


def test_a_topic_is_deleted_by_name():
    with controller() as broker, ClusterClient(broker.address) as cluster:
        delete_topic(cluster, "t")
        (request,) = broker.requests(DeleteTopicsRequest)
    assert [topic.name for topic in request.topics] == ["t"]


def test_older_brokers_are_given_plain_names():
    served = {20: (0, 3), 3: (0, 12), 18: (0, 4)}
    broker = controller()
    broker.served = served
    with broker, ClusterClient(broker.address) as cluster:
        delete_topic(cluster, "t")
        (request,) = broker.requests(DeleteTopicsRequest)
    assert request.topic_names == ["t"]


def test_partitions_are_added_up_to_a_total():
    with controller() as broker, ClusterClient(broker.address) as cluster:
        add_partitions(cluster, "t", 5, assignment=[[1]])
        (topic,) = broker.requests(CreatePartitionsRequest)[0].topics
    assert (topic.name, topic.count, [new.broker_ids for new in topic.assignments]) == ("t", 5, [[1]])


@pytest.mark.parametrize(
    "act",
    [
        lambda cluster: create_topic(cluster, NewTopic("t")),
        lambda cluster: delete_topic(cluster, "t"),
        lambda cluster: add_partitions(cluster, "t", 2),
    ],
)
def test_a_refusal_is_raised_with_the_controllers_words(act):
    broker = controller(ErrorCode.POLICY_VIOLATION)
    with (
        broker,
        ClusterClient(broker.address) as cluster,
        pytest.raises(ApiError, match="topic 't': because") as caught,
    ):
        act(cluster)
    assert caught.value.code is ErrorCode.POLICY_VIOLATION
