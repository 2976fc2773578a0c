"""Requests of every API about one topic, group and transactional id, and the rights they are tried with.

Rights are given by address: the requests come from 127.0.0.2, while the administrator comes from 127.0.0.1 and may do
everything. So a broker needs no authentication to be asked.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from importlib import import_module
from pkgutil import iter_modules
from typing import Any, Final

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)

from tests.integration.raw_client import RawClient, batch_of
from tidelog.wire import messages
from tidelog.wire.schema import Struct

for _module in iter_modules(messages.__path__):
    import_module(f"{messages.__name__}.{_module.name}")

TOPIC: Final = "secret-plans"
GROUP: Final = "secret-readers"
TRANSACTIONAL_ID: Final = "secret-writer"
STRANGER: Final = "127.0.0.2"
ADMINISTRATOR: Final = "127.0.0.1"

SETTINGS: Final = {
    "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
    # The first ACLs can be made because there are none; with them, everything is closed.
    "allow.everyone.if.no.acl.found": "true",
    "broker.id": "0",
    "auto.create.topics.enable": "false",
    "group.initial.rebalance.delay.ms": "0",
    "delegation.token.secret.key": "of all brokers",
}
"""What a broker that is asked runs with."""

Grant = tuple[str, str, str, str]
"""Resource type, name, operation, permission."""

GRANTS: Final[Mapping[str, tuple[Grant, ...]]] = {
    "nothing": (),
    "topic describe": (("TOPIC", TOPIC, "DESCRIBE", "ALLOW"),),
    "topic read": (("TOPIC", TOPIC, "READ", "ALLOW"),),
    "topic write": (("TOPIC", TOPIC, "WRITE", "ALLOW"),),
    "topic alter": (("TOPIC", TOPIC, "ALTER", "ALLOW"),),
    "topic describe configs": (("TOPIC", TOPIC, "DESCRIBE_CONFIGS", "ALLOW"),),
    "topic all but read": (("TOPIC", TOPIC, "ALL", "ALLOW"), ("TOPIC", TOPIC, "READ", "DENY")),
    "group describe": (("GROUP", GROUP, "DESCRIBE", "ALLOW"),),
    "group read": (("GROUP", GROUP, "READ", "ALLOW"),),
    "group and topic read": (("GROUP", GROUP, "READ", "ALLOW"), ("TOPIC", TOPIC, "READ", "ALLOW")),
    "transaction describe": (("TRANSACTIONAL_ID", TRANSACTIONAL_ID, "DESCRIBE", "ALLOW"),),
    "transaction write": (("TRANSACTIONAL_ID", TRANSACTIONAL_ID, "WRITE", "ALLOW"),),
    "cluster describe": (("BROKER", "kafka-cluster", "DESCRIBE", "ALLOW"),),
    "cluster describe configs": (("BROKER", "kafka-cluster", "DESCRIBE_CONFIGS", "ALLOW"),),
    "cluster create": (("BROKER", "kafka-cluster", "CREATE", "ALLOW"),),
    "cluster idempotent write": (("BROKER", "kafka-cluster", "IDEMPOTENT_WRITE", "ALLOW"),),
}


BETWEEN_BROKERS: Final = frozenset(
    {
        "LeaderAndIsrRequest",
        "StopReplicaRequest",
        "UpdateMetadataRequest",
        "ControlledShutdownRequest",
        "AlterPartitionRequest",
        "AllocateProducerIdsRequest",
    }
)
"""Only the brokers of a cluster serve these; a broker that is alone closes the connection."""


def requests(topic_id: bytes) -> Iterator[Any]:
    """A request of each API, and of some several, in its newest version."""
    m = messages
    yield m.MetadataRequest(topics=None)
    yield m.MetadataRequest(topics=[m.metadata.MetadataRequestTopic(name=TOPIC)])
    yield m.MetadataRequest(
        topics=[m.metadata.MetadataRequestTopic(name=TOPIC)], include_topic_authorized_operations=True
    )
    yield m.MetadataRequest(topics=[m.metadata.MetadataRequestTopic(name=None, topic_id=topic_id)])
    yield m.MetadataRequest(topics=[m.metadata.MetadataRequestTopic(name="secret-nothing")])
    yield m.DescribeTopicPartitionsRequest(
        topics=[m.describe_topic_partitions.TopicRequest(name=TOPIC)], response_partition_limit=10
    )
    yield m.DescribeTopicPartitionsRequest(topics=[], response_partition_limit=10)
    yield m.ProduceRequest(
        acks=-1,
        timeout_ms=1000,
        topic_data=[
            m.produce.TopicProduceData(
                name=TOPIC, partition_data=[m.produce.PartitionProduceData(index=0, records=batch_of([b"x"]))]
            )
        ],
    )
    yield m.FetchRequest(
        max_wait_ms=0,
        min_bytes=0,
        max_bytes=1000,
        session_epoch=-1,
        topics=[
            m.fetch.FetchTopic(
                topic_id=topic_id,
                partitions=[m.fetch.FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1000)],
            )
        ],
    )
    yield m.ListOffsetsRequest(
        topics=[
            m.list_offsets.ListOffsetsTopic(
                name=TOPIC, partitions=[m.list_offsets.ListOffsetsPartition(partition_index=0, timestamp=-2)]
            )
        ]
    )
    yield m.OffsetForLeaderEpochRequest(
        replica_id=-1,
        topics=[
            m.offset_for_leader_epoch.OffsetForLeaderTopic(
                topic=TOPIC, partitions=[m.offset_for_leader_epoch.OffsetForLeaderPartition(partition=0)]
            )
        ],
    )
    yield m.DeleteRecordsRequest(
        timeout_ms=1000,
        topics=[
            m.delete_records.DeleteRecordsTopic(
                name=TOPIC, partitions=[m.delete_records.DeleteRecordsPartition(partition_index=0, offset=0)]
            )
        ],
    )
    yield m.DescribeProducersRequest(topics=[m.describe_producers.TopicRequest(name=TOPIC, partition_indexes=[0])])
    yield m.CreateTopicsRequest(
        timeout_ms=1000,
        validate_only=True,
        topics=[m.create_topics.CreatableTopic(name="secret-new", num_partitions=1, replication_factor=1)],
    )
    yield m.CreatePartitionsRequest(
        timeout_ms=1000,
        validate_only=True,
        topics=[m.create_partitions.CreatePartitionsTopic(name=TOPIC, count=3, assignments=None)],
    )
    yield from _of_groups()
    yield from _of_transactions()
    yield from _of_the_cluster()
    yield from _of_brokers(topic_id)
    yield from _of_tokens_and_users()


def _of_groups() -> Iterator[Any]:
    m = messages
    yield m.FindCoordinatorRequest(key_type=0, coordinator_keys=[GROUP])
    yield m.OffsetFetchRequest(
        groups=[
            m.offset_fetch.OffsetFetchRequestGroup(
                group_id=GROUP,
                topics=[m.offset_fetch.OffsetFetchRequestTopics(name=TOPIC, partition_indexes=[0])],
            )
        ]
    )
    yield m.OffsetFetchRequest(groups=[m.offset_fetch.OffsetFetchRequestGroup(group_id=GROUP, topics=None)])
    yield m.OffsetCommitRequest(
        group_id=GROUP,
        topics=[
            m.offset_commit.OffsetCommitRequestTopic(
                name=TOPIC,
                partitions=[m.offset_commit.OffsetCommitRequestPartition(partition_index=0, committed_offset=0)],
            )
        ],
    )
    yield m.HeartbeatRequest(group_id=GROUP, generation_id=1, member_id="someone")
    yield m.SyncGroupRequest(
        group_id=GROUP, generation_id=1, member_id="someone", protocol_type="consumer", protocol_name="range"
    )
    yield m.LeaveGroupRequest(
        group_id=GROUP, members=[m.leave_group.MemberIdentity(member_id="someone", group_instance_id=None)]
    )
    yield m.JoinGroupRequest(
        group_id=GROUP,
        session_timeout_ms=6000,
        rebalance_timeout_ms=6000,
        member_id="someone",
        protocol_type="consumer",
        protocols=[m.join_group.JoinGroupRequestProtocol(name="range", metadata=b"")],
    )
    yield m.DescribeGroupsRequest(groups=[GROUP], include_authorized_operations=True)
    yield m.ListGroupsRequest()
    yield m.OffsetDeleteRequest(
        group_id=GROUP,
        topics=[
            m.offset_delete.OffsetDeleteRequestTopic(
                name=TOPIC, partitions=[m.offset_delete.OffsetDeleteRequestPartition(partition_index=1)]
            )
        ],
    )
    yield m.DeleteGroupsRequest(groups_names=["secret-nobody"])


def _of_transactions() -> Iterator[Any]:
    m = messages
    yield m.FindCoordinatorRequest(key_type=1, coordinator_keys=[TRANSACTIONAL_ID])
    yield m.InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1000)
    yield m.AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=TRANSACTIONAL_ID,
        v3_and_below_producer_id=77,
        v3_and_below_producer_epoch=0,
        v3_and_below_topics=[m.add_partitions_to_txn.AddPartitionsToTxnTopic(name=TOPIC, partitions=[0])],
    )
    yield m.AddOffsetsToTxnRequest(transactional_id=TRANSACTIONAL_ID, producer_id=77, producer_epoch=0, group_id=GROUP)
    yield m.TxnOffsetCommitRequest(
        transactional_id=TRANSACTIONAL_ID,
        group_id=GROUP,
        producer_id=77,
        producer_epoch=0,
        topics=[
            m.txn_offset_commit.TxnOffsetCommitRequestTopic(
                name=TOPIC,
                partitions=[m.txn_offset_commit.TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=0)],
            )
        ],
    )
    yield m.EndTxnRequest(transactional_id=TRANSACTIONAL_ID, producer_id=77, producer_epoch=0, committed=True)
    yield m.DescribeTransactionsRequest(transactional_ids=[TRANSACTIONAL_ID])
    yield m.ListTransactionsRequest()
    yield m.WriteTxnMarkersRequest(
        markers=[
            m.write_txn_markers.WritableTxnMarker(
                producer_id=77,
                producer_epoch=0,
                coordinator_epoch=0,
                transaction_result=True,
                topics=[m.write_txn_markers.WritableTxnMarkerTopic(name=TOPIC, partition_indexes=[0])],
            )
        ]
    )


def _of_the_cluster() -> Iterator[Any]:
    m = messages
    yield m.DescribeClusterRequest(include_cluster_authorized_operations=True)
    for kind, name in ((2, TOPIC), (4, "0")):
        yield m.DescribeConfigsRequest(
            resources=[
                m.describe_configs.DescribeConfigsResource(
                    resource_type=kind, resource_name=name, configuration_keys=["retention.ms", "log.retention.hours"]
                )
            ]
        )
        yield m.IncrementalAlterConfigsRequest(
            validate_only=True,
            resources=[
                m.incremental_alter_configs.AlterConfigsResource(resource_type=kind, resource_name=name, configs=[])
            ],
        )
        yield m.AlterConfigsRequest(
            validate_only=True,
            resources=[m.alter_configs.AlterConfigsResource(resource_type=kind, resource_name=name, configs=[])],
        )
    yield m.DescribeAclsRequest(
        resource_type_filter=1,
        resource_name_filter="none",
        pattern_type_filter=3,
        principal_filter=None,
        host_filter=None,
        operation=1,
        permission_type=1,
    )
    yield m.CreateAclsRequest(
        creations=[
            m.create_acls.AclCreation(
                resource_type=2, resource_name="x", principal="User:x", host="*", operation=3, permission_type=3
            )
        ]
    )
    yield m.DeleteAclsRequest(
        filters=[
            m.delete_acls.DeleteAclsFilter(
                resource_type_filter=2,
                resource_name_filter="nowhere",
                pattern_type_filter=3,
                principal_filter=None,
                host_filter=None,
                operation=1,
                permission_type=1,
            )
        ]
    )
    yield m.ElectLeadersRequest(
        election_type=0,
        topic_partitions=[m.elect_leaders.TopicPartitions(topic=TOPIC, partitions=[0])],
        timeout_ms=1000,
    )
    yield m.AlterPartitionReassignmentsRequest(timeout_ms=1000, topics=[])
    yield m.UpdateFeaturesRequest(
        feature_updates=[
            m.update_features.FeatureUpdateKey(feature="metadata.version", max_version_level=7),
            m.update_features.FeatureUpdateKey(feature="none", max_version_level=0),
        ]
    )
    yield m.ListPartitionReassignmentsRequest(timeout_ms=1000, topics=None)
    yield m.DescribeClientQuotasRequest(components=[], strict=False)
    yield m.AlterClientQuotasRequest(
        validate_only=True,
        entries=[
            m.alter_client_quotas.EntryData(
                entity=[m.alter_client_quotas.EntityData(entity_type="user", entity_name="x")], ops=[]
            )
        ],
    )
    yield m.DescribeUserScramCredentialsRequest(users=None)
    yield m.DescribeLogDirsRequest(
        topics=[m.describe_log_dirs.DescribableLogDirTopic(topic="secret-nothing", partitions=[0])]
    )


def _of_brokers(topic_id: bytes) -> Iterator[Any]:
    """What brokers say to each other; with rights, none of these would change anything."""
    m = messages
    yield m.LeaderAndIsrRequest(controller_id=0, controller_epoch=0, broker_epoch=0)
    yield m.StopReplicaRequest(controller_id=0, controller_epoch=0, broker_epoch=0)
    yield m.UpdateMetadataRequest(controller_id=0, controller_epoch=0, broker_epoch=0)
    yield m.ControlledShutdownRequest(broker_id=77, broker_epoch=0)
    yield m.AlterPartitionRequest(
        broker_id=77, broker_epoch=0, topics=[m.alter_partition.TopicData(topic_id=topic_id, partitions=[])]
    )
    yield m.AllocateProducerIdsRequest(broker_id=77, broker_epoch=0)
    yield m.DeleteTopicsRequest(topics=[m.delete_topics.DeleteTopicState(name="secret-nothing")], timeout_ms=1000)
    yield m.AlterReplicaLogDirsRequest(
        dirs=[
            m.alter_replica_log_dirs.AlterReplicaLogDir(
                path="/nowhere",
                topics=[m.alter_replica_log_dirs.AlterReplicaLogDirTopic(name="secret-nothing", partitions=[0])],
            )
        ]
    )


def _of_tokens_and_users() -> Iterator[Any]:
    m = messages
    yield m.CreateDelegationTokenRequest(owner_principal_type=None, owner_principal_name=None, max_lifetime_ms=-1)
    yield m.RenewDelegationTokenRequest(hmac=b"secret", renew_period_ms=-1)
    yield m.ExpireDelegationTokenRequest(hmac=b"secret", expiry_time_period_ms=-1)
    yield m.DescribeDelegationTokenRequest(owners=None)
    yield m.AlterUserScramCredentialsRequest(
        deletions=[m.alter_user_scram_credentials.ScramCredentialDeletion(name="secret-user", mechanism=1)]
    )
    yield m.ConsumerGroupDescribeRequest(group_ids=[GROUP])
    yield m.ConsumerGroupHeartbeatRequest(
        group_id=GROUP, member_epoch=0, rebalance_timeout_ms=1000, subscribed_topic_names=[TOPIC], topic_partitions=[]
    )


_VERSIONS: Final = {
    "AddPartitionsToTxnRequest": 3,
    "AlterPartitionReassignmentsRequest": 0,
    "ConsumerGroupDescribeRequest": 0,
    "ConsumerGroupHeartbeatRequest": 0,
    "DeleteGroupsRequest": 2,
    "DescribeClusterRequest": 1,
    "DescribeGroupsRequest": 5,
    "DescribeLogDirsRequest": 4,
    "EndTxnRequest": 4,
    "FetchRequest": 17,
    "ListOffsetsRequest": 8,
    "ListTransactionsRequest": 1,
    "MetadataRequest": 12,
    "OffsetCommitRequest": 9,
    "OffsetFetchRequest": 9,
    "ProduceRequest": 11,
    "TxnOffsetCommitRequest": 4,
    "UpdateFeaturesRequest": 1,
    "WriteTxnMarkersRequest": 1,
}
"""Newer versions are for brokers, or Kafka 3.9 does not have them."""

_LEFT_OUT: Final = frozenset(
    {
        "throttle_time_ms",
        "error_message",
        "cluster_id",
        "host",
        "port",
        "log_dir",
        "total_bytes",
        "usable_bytes",
        "log_append_time_ms",
        "transaction_start_time_ms",
        "producer_id",
        "base_offset",
        "records",
        "high_watermark",
        "last_stable_offset",
        "topic_id",
        "member_id",
        "configs",
        "active_producers",
    }
)
"""Fields in which two brokers may differ with everything else being the same."""


def answers(port: int, topic_id: bytes, left_out: Collection[str] = ()) -> dict[str, Any]:
    """What a broker answers to each request, without what may differ; `closed` where it ends the connection."""
    found: dict[str, Any] = {}
    for number, request in enumerate(requests(topic_id)):
        name = type(request).__name__
        if name in left_out:
            continue
        with RawClient(port, timeout_s=10) as client:
            try:
                found[f"{number} {name}"] = _plain(client.call(request, _VERSIONS.get(name)))
            except ConnectionResetError:
                found[f"{number} {name}"] = "closed"
            except TimeoutError:
                found[f"{number} {name}"] = "silent"
    return found


def _plain(value: Any) -> Any:
    if isinstance(value, Struct):
        return {name: _plain(getattr(value, name)) for name in type(value).fields if name not in _LEFT_OUT}
    if isinstance(value, list):
        plain = [_plain(each) for each in value]
        return sorted(plain, key=repr)
    return int(value) if isinstance(value, int) else value


def any_acl(
    kind: ResourceType, name: str | None, pattern: ResourcePatternType, *, host: str | None = None
) -> AclBindingFilter:
    """Every ACL of a resource. The library takes None for what may be anything; its types do not say so."""
    found: Any = AclBindingFilter
    return found(kind, name, pattern, None, host, AclOperation.ANY, AclPermissionType.ANY)  # type: ignore[no-any-return]


class Administrator:
    """Makes what the requests are about, and gives and takes rights."""

    def __init__(self, servers: str) -> None:
        self._admin = AdminClient({"bootstrap.servers": servers})
        self._servers = servers

    def prepare(self) -> bytes:
        """Close everything to strangers and make the topic, the group and the transaction. Returns the topic's id."""
        self._create(("TOPIC", "*", "ALL", "ALLOW"), ADMINISTRATOR)
        self._create(("GROUP", "*", "ALL", "ALLOW"), ADMINISTRATOR)
        self._create(("TRANSACTIONAL_ID", "*", "ALL", "ALLOW"), ADMINISTRATOR)
        self._create(("BROKER", "kafka-cluster", "ALL", "ALLOW"), ADMINISTRATOR)
        self._admin.create_topics([NewTopic(TOPIC, 2, 1)])[TOPIC].result(30)
        producer = Producer({"bootstrap.servers": self._servers, "transactional.id": TRANSACTIONAL_ID})
        producer.init_transactions(30)
        producer.begin_transaction()
        producer.produce(TOPIC, b"one", partition=0)
        producer.commit_transaction(30)
        consumer = Consumer({"bootstrap.servers": self._servers, "group.id": GROUP})
        consumer.commit(offsets=[TopicPartition(TOPIC, 0, 1)], asynchronous=False)
        consumer.close()
        described = self._admin.list_topics(TOPIC, 30)
        assert TOPIC in described.topics
        return self._topic_id()

    def _topic_id(self) -> bytes:
        from confluent_kafka import TopicCollection

        described = self._admin.describe_topics(TopicCollection([TOPIC]))[TOPIC].result(30)
        high, low = described.topic_id.get_most_significant_bits(), described.topic_id.get_least_significant_bits()
        return high.to_bytes(8, "big", signed=True) + low.to_bytes(8, "big", signed=True)

    def grant(self, grants: tuple[Grant, ...]) -> None:
        """The stranger has these rights and no others."""
        everything = any_acl(ResourceType.ANY, None, ResourcePatternType.ANY, host=STRANGER)
        for future in self._admin.delete_acls([everything]).values():
            future.result(30)
        for each in grants:
            self._create(each, STRANGER)

    def _create(self, grant: Grant, host: str) -> None:
        kind, name, operation, permission = grant
        binding = AclBinding(
            ResourceType[kind],
            name,
            ResourcePatternType.LITERAL,
            "User:ANONYMOUS",
            host,
            AclOperation[operation],
            AclPermissionType[permission],
        )
        for future in self._admin.create_acls([binding]).values():
            future.result(30)
