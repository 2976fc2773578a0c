import pytest

from tests.integration.client.scripted_broker import ScriptedBroker
from tidelog.client.cluster import ClusterClient
from tidelog.client.configs import Change, Operation, Resource, ResourceType, alter_configs, describe_configs
from tidelog.client.errors import ApiError
from tidelog.wire.errors import ErrorCode
from tidelog.wire.messages import (
    DescribeConfigsRequest,
    DescribeConfigsResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
    MetadataRequest,
)
from tidelog.wire.messages.describe_configs import DescribeConfigsResourceResult, DescribeConfigsResult
from tidelog.wire.messages.incremental_alter_configs import AlterConfigsResourceResponse

TOPIC = Resource(ResourceType.TOPIC, "t")


def answering(error=ErrorCode.NONE):
    configs = [DescribeConfigsResourceResult(name=name, value="1") for name in ("b", "a")]
    message = "because" if error else None
    broker = ScriptedBroker(
        {
            MetadataRequest: lambda request: broker.metadata("t", 1),
            DescribeConfigsRequest: lambda request: DescribeConfigsResponse(
                results=[DescribeConfigsResult(error_code=error, error_message=message, configs=configs)]
            ),
            IncrementalAlterConfigsRequest: lambda request: IncrementalAlterConfigsResponse(
                responses=[AlterConfigsResourceResponse(error_code=error, error_message=message)]
            ),
        }
    )
    return broker


def test_settings_come_sorted_by_name():
    with answering() as broker, ClusterClient(broker.address) as cluster:
        assert [config.name for config in describe_configs(cluster, TOPIC, ["a"], synonyms=True)] == ["a", "b"]
        (request,) = broker.requests(DescribeConfigsRequest)
    (resource,) = request.resources
    assert (resource.resource_type, resource.resource_name, resource.configuration_keys) == (2, "t", ["a"])
    assert (request.include_synonyms, request.include_documentation) == (True, False)


def test_a_broker_is_asked_for_its_own_settings():
    with answering() as broker, ClusterClient(broker.address) as cluster:
        describe_configs(cluster, Resource(ResourceType.BROKER, "7"))
        assert broker.requests(DescribeConfigsRequest)[0].resources[0].resource_name == "7"
        with pytest.raises(ApiError, match="no broker 8; the cluster has 7"):
            describe_configs(cluster, Resource(ResourceType.BROKER, "8"))


def test_changes_are_sent_with_their_operations():
    changes = [Change("a", Operation.SET, "1"), Change("b", Operation.DELETE), Change("c", Operation.APPEND, "x")]
    with answering() as broker, ClusterClient(broker.address) as cluster:
        alter_configs(cluster, Resource(ResourceType.BROKER, ""), changes, validate_only=True)
        (request,) = broker.requests(IncrementalAlterConfigsRequest)
    (resource,) = request.resources
    assert (request.validate_only, resource.resource_type, resource.resource_name) == (True, 4, "")
    sent = [(config.name, config.config_operation, config.value) for config in resource.configs]
    assert sent == [("a", 0, "1"), ("b", 1, None), ("c", 2, "x")]


def test_a_refusal_names_the_resource():
    with answering(ErrorCode.INVALID_CONFIG) as broker, ClusterClient(broker.address) as cluster:
        with pytest.raises(ApiError, match="topic t: because"):
            describe_configs(cluster, TOPIC)
        with pytest.raises(ApiError, match="topic t: because"):
            alter_configs(cluster, TOPIC, [])


def test_resources_are_told_in_words():
    assert str(TOPIC) == "topic t"
    assert str(Resource(ResourceType.BROKER, "3")) == "broker 3"
    assert str(Resource(ResourceType.BROKER, "")) == "broker defaults"
