"""Topics made, widened and removed. Each function is one request to the controller, refusals raised as ApiError."""

from collections.abc import Sequence

from tidelog.client.aio.admin.types import CreatedTopic, NewTopic
from tidelog.client.cluster import ClusterClient
from tidelog.client.refusals import raise_if_refused
from tidelog.wire.messages import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
)
from tidelog.wire.messages.create_partitions import CreatePartitionsAssignment, CreatePartitionsTopic
from tidelog.wire.messages.create_topics import CreatableReplicaAssignment, CreatableTopic, CreatableTopicConfig
from tidelog.wire.messages.delete_topics import DeleteTopicState

Assignment = Sequence[Sequence[int]]


def create_topic(cluster: ClusterClient, topic: NewTopic, *, validate_only: bool = False) -> CreatedTopic:
    """Make one topic; when this returns, Metadata has it."""
    assignments = [
        CreatableReplicaAssignment(partition_index=index, broker_ids=list(replicas))
        for index, replicas in enumerate(topic.assignment)
    ]
    request = CreateTopicsRequest(
        topics=[
            CreatableTopic(
                name=topic.name,
                num_partitions=-1 if assignments else topic.partitions,
                replication_factor=-1 if assignments else topic.replication_factor,
                assignments=assignments,
                configs=[CreatableTopicConfig(name=name, value=value) for name, value in topic.configs.items()],
            )
        ],
        timeout_ms=_timeout_ms(cluster),
        validate_only=validate_only,
    )

    def attempt() -> CreatedTopic:
        (result,) = cluster.on_controller(request, CreateTopicsResponse).topics
        raise_if_refused(f"topic {topic.name!r}", result.error_code, result.error_message)
        return CreatedTopic(topic.name, result.topic_id, result.num_partitions, result.replication_factor)

    return cluster.retrying(attempt)


def delete_topic(cluster: ClusterClient, name: str) -> None:
    """Remove one topic and its records."""
    # Versions up to 5 carry plain names, later ones entries that may hold an id instead; each is left out by the other.
    request = DeleteTopicsRequest(
        topics=[DeleteTopicState(name=name)], topic_names=[name], timeout_ms=_timeout_ms(cluster)
    )

    def attempt() -> None:
        (result,) = cluster.on_controller(request, DeleteTopicsResponse).responses
        raise_if_refused(f"topic {name!r}", result.error_code, result.error_message)

    cluster.retrying(attempt)
    cluster.forget()


def add_partitions(
    cluster: ClusterClient, name: str, total: int, *, assignment: Assignment = (), validate_only: bool = False
) -> None:
    """Give a topic `total` partitions, which must be more than it has; `assignment` is for the new ones."""
    new = [CreatePartitionsAssignment(broker_ids=list(replicas)) for replicas in assignment]
    request = CreatePartitionsRequest(
        topics=[CreatePartitionsTopic(name=name, count=total, assignments=new or None)],
        timeout_ms=_timeout_ms(cluster),
        validate_only=validate_only,
    )

    def attempt() -> None:
        (result,) = cluster.on_controller(request, CreatePartitionsResponse).results
        raise_if_refused(f"topic {name!r}", result.error_code, result.error_message)

    cluster.retrying(attempt)
    cluster.forget()


def _timeout_ms(cluster: ClusterClient) -> int:
    return int(cluster.timeout_s * 1000)
