import pytest

from tests.integration.client.scripted_broker import ScriptedBroker
from tidelog.client.cluster import ClusterClient
from tidelog.client.errors import ApiError
from tidelog.client.offsets import EARLIEST, HIGH_WATERMARK, LATEST, FoundOffset, delete_records, list_offsets
from tidelog.wire.errors import ErrorCode
from tidelog.wire.messages import (
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    MetadataRequest,
)
from tidelog.wire.messages.delete_records import DeleteRecordsPartitionResult, DeleteRecordsTopicResult
from tidelog.wire.messages.list_offsets import ListOffsetsPartitionResponse, ListOffsetsTopicResponse


def leader(*errors):
    """A leader that answers with each error first, then with offsets that tell what was asked."""
    left = list(errors)

    def outcome():
        return left.pop(0) if left else ErrorCode.NONE

    def list_(request):
        partitions = [
            ListOffsetsPartitionResponse(
                partition_index=wanted.partition_index,
                error_code=outcome(),
                offset=100 + wanted.timestamp,
                timestamp=wanted.timestamp,
                leader_epoch=4,
            )
            for wanted in reversed(request.topics[0].partitions)
        ]
        return ListOffsetsResponse(topics=[ListOffsetsTopicResponse(name="t", partitions=partitions)])

    def delete(request):
        partitions = [
            DeleteRecordsPartitionResult(
                partition_index=wanted.partition_index, error_code=outcome(), low_watermark=wanted.offset
            )
            for wanted in request.topics[0].partitions
        ]
        return DeleteRecordsResponse(topics=[DeleteRecordsTopicResult(name="t", partitions=partitions)])

    broker = ScriptedBroker(
        {
            MetadataRequest: lambda request: broker.metadata("t", 3),
            ListOffsetsRequest: list_,
            DeleteRecordsRequest: delete,
        }
    )
    return broker


def test_offsets_come_by_partition_in_order():
    with leader() as broker, ClusterClient(broker.address) as cluster:
        found = list_offsets(cluster, "t", {0: EARLIEST, 1: LATEST, 2: 42}, read_committed=True)
        assert list(found.items()) == [
            (0, FoundOffset(98, -2, 4)),
            (1, FoundOffset(99, -1, 4)),
            (2, FoundOffset(142, 42, 4)),
        ]
        assert broker.requests(ListOffsetsRequest)[0].isolation_level == 1


def test_a_moving_leader_is_waited_out():
    with leader(ErrorCode.NOT_LEADER_OR_FOLLOWER) as broker, ClusterClient(broker.address) as cluster:
        assert list_offsets(cluster, "t", {0: LATEST})[0].offset == 99
        assert delete_records(cluster, "t", {0: 7, 1: HIGH_WATERMARK}) == {0: 7, 1: -1}


def test_an_error_names_the_partition():
    errors = [ErrorCode.OFFSET_OUT_OF_RANGE, ErrorCode.TOPIC_AUTHORIZATION_FAILED]
    with leader(*errors) as broker, ClusterClient(broker.address) as cluster:
        with pytest.raises(ApiError, match="t-2: "):
            delete_records(cluster, "t", {2: 7})
        with pytest.raises(ApiError, match="t-1: "):
            list_offsets(cluster, "t", {1: LATEST})
