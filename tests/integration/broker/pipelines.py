"""Requests of every API about the same few things, and what can be compared of their answers.

A `Scope` is a topic with records, a group with offsets and a producer with an open transaction, all with names of their
own, so that two brokers' worth of state fit into one broker. `operations` are requests about a scope, made by the names
of their fields; `comparable` makes an answer the same for two scopes in which the same has happened.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from tests.integration.raw_client import RawClient, batch_of, frame_of, records_of
from tidelog.broker.handlers import handlers
from tidelog.broker.requests.routes import request_name
from tidelog.records.batch import iterate_batches, iterate_records
from tidelog.records.builder import build_batch
from tidelog.wire import messages
from tidelog.wire.api_keys import ApiKey
from tidelog.wire.errors import ErrorCode
from tidelog.wire.fields import Declared
from tidelog.wire.schema import Field, Message, Struct

TIMESTAMP_MS = 1_700_000_000_000
CLOSED = "closed"
"""The last of the answers, if the broker closed the connection; a produce without acks that fails has no other."""


class Scope(NamedTuple):
    """What the requests of one side are about. The names of two scopes have the same length."""

    name: str
    producer_id: int = -1
    producer_epoch: int = -1

    def transactional_batch(self) -> bytes:
        return build_batch(
            records_of([b"of a transaction"], TIMESTAMP_MS),
            producer_id=self.producer_id,
            producer_epoch=self.producer_epoch,
            base_sequence=0,
            is_transactional=True,
        )


class Operation(NamedTuple):
    """A request to be made for a scope, in one version."""

    label: str
    request_class: type[Message]
    version: int
    values: Mapping[str, Any]
    """Values of fields, by name, instead of those that fields of that name usually have here."""

    def request(self, scope: Scope) -> Any:
        return _fill(self.request_class, self.version, scope, self.values)

    @property
    def has_answer(self) -> bool:
        return self.values.get("acks") != 0


_VERSIONS: Final = {
    ApiKey.PRODUCE: 9,
    ApiKey.FETCH: 11,
    ApiKey.METADATA: 9,
    ApiKey.OFFSET_COMMIT: 9,
    ApiKey.OFFSET_FETCH: 9,
    ApiKey.DELETE_TOPICS: 5,
    ApiKey.ADD_PARTITIONS_TO_TXN: 3,
    ApiKey.FIND_COORDINATOR: 3,
    ApiKey.JOIN_GROUP: 9,
}
"""Where the newest version names things by ids, or is for brokers."""

_VARIANTS: Final[Mapping[ApiKey, tuple[Mapping[str, Any], ...]]] = {
    ApiKey.PRODUCE: (
        {"acks": 0},
        {"acks": 1},
        {"acks": -1},
        {"acks": -1, "transactional_id": "name", "records": Scope.transactional_batch},
    ),
    ApiKey.LIST_OFFSETS: ({"timestamp": -1}, {"timestamp": -2}, {"timestamp": -1, "isolation_level": 1}),
    ApiKey.FETCH: ({"fetch_offset": 3}, {"fetch_offset": 0, "isolation_level": 1}),
    ApiKey.DELETE_RECORDS: ({"offset": 2}, {"offset": -1}),
    ApiKey.END_TXN: ({"committed": True}, {"committed": False}),
    ApiKey.FIND_COORDINATOR: ({"key_type": 0}, {"key_type": 1}),
    ApiKey.OFFSET_FETCH: ({"topics": None}, {"topics": None, "require_stable": True}),
    ApiKey.INIT_PRODUCER_ID: ({"transactional_id": None},),
    ApiKey.LEAVE_GROUP: ({"group_instance_id": "name"},),
}


def operations() -> Iterator[Operation]:
    """At least one for every API of the handler table."""
    for route in handlers().values():
        key = ApiKey(route.api_key)
        request_class = getattr(messages, request_name(key))
        for number, values in enumerate(_VARIANTS.get(key, ({},))):
            yield Operation(f"{key.name}-{number}", request_class, _VERSIONS.get(key, route.max_version), values)


_VALUES: Final[Mapping[str, Any]] = {
    # A method of the scope, an attribute of it, or the value itself.
    **dict.fromkeys(("name", "topic", "group_id", "key", "resource_name", "transactional_id", "member_id"), "name"),
    **dict.fromkeys(("group_instance_id", "instance_id", "v3_and_below_transactional_id"), "name"),
    **dict.fromkeys(("producer_id", "v3_and_below_producer_id"), "producer_id"),
    **dict.fromkeys(("producer_epoch", "v3_and_below_producer_epoch"), "producer_epoch"),
    **dict.fromkeys(("num_partitions", "replication_factor"), 1),
    **dict.fromkeys(("max_bytes", "partition_max_bytes"), 1 << 20),
    **dict.fromkeys(("session_timeout_ms", "rebalance_timeout_ms", "transaction_timeout_ms"), 10_000),
    **dict.fromkeys(("timeout_ms",), 1000),
    **dict.fromkeys(("replica_id", "generation_id", "generation_id_or_member_epoch", "current_leader_epoch"), -1),
    **dict.fromkeys(("leader_epoch", "coordinator_epoch", "member_epoch"), 0),
    **dict.fromkeys(("committed_leader_epoch", "session_epoch"), -1),
    "acks": 1,
    "allow_auto_topic_creation": False,
    "committed": True,
    "committed_metadata": "",
    "committed_offset": 2,
    "count": 2,
    "min_bytes": 1,
    "max_wait_ms": 0,
    "protocol_type": "consumer",
    "records": lambda _scope: batch_of([b"value"], timestamp=TIMESTAMP_MS),
    "resource_type": 2,
    "response_partition_limit": 100,
    "timestamp": -1,
    "transaction_result": True,
    # Lists of plain values, and lists that stay empty.
    **dict.fromkeys(("partitions", "partition_indexes"), (0,)),
    **dict.fromkeys(("topic_names", "groups", "groups_names", "group_ids", "transactional_ids"), ("name",)),
    **dict.fromkeys(("coordinator_keys", "subscribed_topic_names"), ("name",)),
    **dict.fromkeys(("assignments", "forgotten_topics_data", "topic_partitions", "configuration_keys"), None),
    **dict.fromkeys(("states_filter", "types_filter", "producer_id_filters"), ()),
}
_IN_STRUCTS: Final[Mapping[tuple[str, str], Any]] = {
    # The settings of a topic, and the protocols and assignments of group members, have names, too.
    ("AlterableConfig", "name"): "retention.ms",
    ("AlterableConfig", "value"): "3600000",
    ("CreatableTopicConfig", "name"): "retention.ms",
    ("CreatableTopicConfig", "value"): "3600000",
    ("JoinGroupRequestProtocol", "name"): "range",
    ("JoinGroupRequest", "member_id"): "",
    ("MemberIdentity", "member_id"): "",
    ("ConsumerGroupHeartbeatRequest", "instance_id"): None,
    ("ConsumerGroupHeartbeatRequest", "topic_partitions"): (),
    ("ConsumerGroupHeartbeatRequest", "subscribed_topic_regex"): None,
    ("ConsumerGroupHeartbeatRequest", "server_assignor"): None,
    ("OffsetCommitRequest", "member_id"): "",
    ("OffsetCommitRequest", "group_instance_id"): None,
    ("TxnOffsetCommitRequest", "member_id"): "",
    ("TxnOffsetCommitRequest", "group_instance_id"): None,
    ("OffsetFetchRequestGroup", "member_id"): None,
    ("OffsetFetchRequestGroup", "member_epoch"): -1,
    ("SyncGroupRequest", "protocol_name"): "range",
    ("InitProducerIdRequest", "producer_id"): -1,
    ("InitProducerIdRequest", "producer_epoch"): -1,
    ("DescribeTopicPartitionsRequest", "cursor"): None,
    # A topic of a streams group's topology has a number of partitions.
    ("TopicInfo", "partitions"): 0,
    # Brokers: topics and groups are also those of the other side.
    ("ListConfigResourcesRequest", "resource_types"): (4,),
}


def _fill(cls: type[Declared], version: int, scope: Scope, values: Mapping[str, Any]) -> Any:
    return cls(
        **{
            name: _value(cls, name, field, version, scope, values)
            for name, field in cls.fields.items()
            if field.is_in(version)
        }
    )


def _value(cls: type[Declared], name: str, field: Field, version: int, scope: Scope, values: Mapping[str, Any]) -> Any:
    if name in values:
        return _resolved(values[name], scope)
    if (cls.__name__, name) in _IN_STRUCTS:
        return _resolved(_IN_STRUCTS[cls.__name__, name], scope)
    if field.kind == "array" and isinstance(field.element, type):
        if name in _VALUES and _VALUES[name] is None:
            return None if field.null_since <= version else []
        return [_fill(field.element, version, scope, values)]
    if field.kind == "struct":
        assert isinstance(field.element, type)
        return _fill(field.element, version, scope, values)
    if name in _VALUES:
        value = _resolved(_VALUES[name], scope)
        return value if value is not None or field.null_since <= version else []
    return list(field.default) if field.kind == "array" and field.default is not None else field.default


def _resolved(value: Any, scope: Scope) -> Any:
    if isinstance(value, tuple):
        return [_resolved(each, scope) for each in value]
    if isinstance(value, str) and value in Scope._fields:
        return getattr(scope, value)
    return value(scope) if isinstance(value, Callable) else value  # type: ignore[arg-type]


# --- answers ---

_DIFFERENT: Final = frozenset(
    {
        *("topic_id", "producer_id", "member_id", "members", "leader", "session_id", "transaction_start_time_ms"),
        *("last_timestamp", "log_append_time_ms", "total_bytes", "usable_bytes", "throttle_time_ms"),
    }
)
"""What two answers to the same request need not have in common."""


def comparable(answer: Any, scope: Scope) -> Any:
    """An answer without what is bound to differ, and without what it says about other scopes."""
    if isinstance(answer, Struct):
        return {
            name: _records(getattr(answer, name)) if name == "records" else comparable(getattr(answer, name), scope)
            for name in answer.fields
            if name not in _DIFFERENT
        }
    if isinstance(answer, list):
        return [comparable(each, scope) for each in answer if not _is_of_another(each, scope)]
    return answer.replace(scope.name, "<name>") if isinstance(answer, str) else answer


def _is_of_another(entry: Any, scope: Scope) -> bool:
    """Lists of all topics, groups or transactions hold those of other scopes as well."""
    for field in ("name", "group_id", "transactional_id", "topic"):
        value = getattr(entry, field, None)
        if isinstance(value, str) and value.startswith(("scope-", "__")):
            return value != scope.name
    return False


def _records(data: bytes | None) -> list[tuple[int, bytes | None]]:
    data = bytes(data or b"")
    return [
        (record.offset, record.value)
        for position, header in iterate_batches(data)
        if not header.is_control
        for record in iterate_records(data, position)
    ]


# --- scopes ---


def begin(client: RawClient, name: str) -> Scope:
    """A topic with three records, a group with an offset, and a transaction that has begun."""
    scope = Scope(name)
    by_key = {operation.label: operation for operation in operations()}

    def call(label: str, **values: Any) -> Any:
        operation = by_key[label]
        return client.call(operation._replace(values={**operation.values, **values}).request(scope), operation.version)

    assert call("CREATE_TOPICS-0").topics[0].error_code == ErrorCode.NONE
    for _ in range(3):
        call("PRODUCE-2")
    for key_type in (0, 1):
        assert call(f"FIND_COORDINATOR-{key_type}").error_code == ErrorCode.NONE
    assert call("OFFSET_COMMIT-0").topics[0].partitions[0].error_code == ErrorCode.NONE
    producer = call("INIT_PRODUCER_ID-0", transactional_id=name)
    assert producer.error_code == ErrorCode.NONE
    scope = Scope(name, producer.producer_id, producer.producer_epoch)
    added = call("ADD_PARTITIONS_TO_TXN-0").results_by_topic_v3_and_below[0].results_by_partition[0]
    assert added.partition_error_code == ErrorCode.NONE
    return scope


def in_turn(client: RawClient, scope: Scope, pipeline: list[Operation]) -> list[Any]:
    """Send one request after the other, each when the one before is answered or the connection is closed."""
    answers = []
    for operation in pipeline:
        client.send(operation.request(scope), operation.version)
        try:
            if operation.has_answer:
                answers.append(client.answer(operation.request_class, operation.version))
            else:
                client.call(messages.ApiVersionsRequest(), 0)  # it says nothing, and comes when the produce is over
        except ConnectionError:
            return [*(comparable(answer, scope) for answer in answers), CLOSED]
    return [comparable(answer, scope) for answer in answers]


def ahead(client: RawClient, scope: Scope, pipeline: list[Operation]) -> list[Any]:
    """Send all requests in one write, and one that shows that all are over."""
    frames = [frame_of(operation.request(scope), operation.version) for operation in pipeline]
    client.socket.sendall(b"".join([*frames, frame_of(messages.ApiVersionsRequest(), 0)]))
    answers = []
    try:
        for operation in pipeline:
            if operation.has_answer:
                answers.append(client.answer(operation.request_class, operation.version))
        client.answer(messages.ApiVersionsRequest, 0)
    except ConnectionError:
        return [*(comparable(answer, scope) for answer in answers), CLOSED]
    return [comparable(answer, scope) for answer in answers]
