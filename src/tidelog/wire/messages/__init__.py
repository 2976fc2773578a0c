"""Every message of the protocol, each loaded when it is first named.

    from tidelog.wire.messages import MetadataRequest, MetadataResponse

There is one module per API, with the request, the response and the structs inside them. A struct whose name occurs in more
than one API is to be had from its module only. What this package offers is listed for type checkers and editors in
`__init__.pyi`; the table below says the same to Python, and a test holds the two together.
"""

from importlib import import_module
from typing import Any, Final

_CLASSES: Final = {
    "api_versions": (
        "ApiVersionsRequest",
        "ApiVersion",
        "SupportedFeatureKey",
        "FinalizedFeatureKey",
        "ApiVersionsResponse",
    ),
    "create_topics": (
        "CreatableReplicaAssignment",
        "CreatableTopicConfig",
        "CreatableTopic",
        "CreateTopicsRequest",
        "CreatableTopicConfigs",
        "CreatableTopicResult",
        "CreateTopicsResponse",
    ),
    "fetch": (
        "ReplicaState",
        "FetchPartition",
        "FetchTopic",
        "ForgottenTopic",
        "FetchRequest",
        "EpochEndOffset",
        "SnapshotId",
        "AbortedTransaction",
        "PartitionData",
        "FetchableTopicResponse",
        "FetchResponse",
    ),
    "init_producer_id": ("InitProducerIdRequest", "InitProducerIdResponse"),
    "list_offsets": (
        "ListOffsetsPartition",
        "ListOffsetsTopic",
        "ListOffsetsRequest",
        "ListOffsetsPartitionResponse",
        "ListOffsetsTopicResponse",
        "ListOffsetsResponse",
    ),
    "metadata": (
        "MetadataRequestTopic",
        "MetadataRequest",
        "MetadataResponseBroker",
        "MetadataResponsePartition",
        "MetadataResponseTopic",
        "MetadataResponse",
    ),
    "produce": (
        "PartitionProduceData",
        "TopicProduceData",
        "ProduceRequest",
        "BatchIndexAndErrorMessage",
        "PartitionProduceResponse",
        "TopicProduceResponse",
        "ProduceResponse",
    ),
}

_MODULES: Final = {name: module for module, names in _CLASSES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return [*globals(), *_MODULES]
