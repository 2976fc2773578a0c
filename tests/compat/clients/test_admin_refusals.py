"""What a single broker without security answers to requests for other leaders, places, quotas, passwords and ACLs.

The codes are Kafka's, from the same tests with `TIDELOG_COMPAT_TARGET=kafka`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from tests.compat.clients.admins import confluent_admin
from tests.compat.clients.brokers import Broker
from tests.compat.clients.raw import RawConnection
from tidelog.wire import messages
from tidelog.wire.errors import ErrorCode
from tidelog.wire.messages import (
    alter_client_quotas,
    alter_partition_reassignments,
    alter_replica_log_dirs,
    alter_user_scram_credentials,
    create_acls,
    delete_acls,
    describe_client_quotas,
    describe_user_scram_credentials,
    elect_leaders,
    update_features,
)

DEADLINE_S = 30
PREFERRED, UNCLEAN = 0, 1


def call(broker: Broker, request: Any, version: int | None = None) -> Any:
    answer = getattr(messages, type(request).__name__.replace("Request", "Response"))
    with RawConnection(broker) as connection:
        return connection.call(request, request.versions[1] if version is None else version, answer)


def own_id(broker: Broker) -> int:
    return call(broker, messages.MetadataRequest(topics=[])).brokers[0].node_id


# --- leaders ---


def elected(response: Any) -> dict[tuple[str, int], ErrorCode]:
    return {
        (topic.topic, partition.partition_id): ErrorCode(partition.error_code)
        for topic in response.replica_election_results
        for partition in topic.partition_result
    }


@pytest.mark.parametrize("version", [0, 1, 2])
@pytest.mark.parametrize("kind", [PREFERRED, UNCLEAN])
def test_a_partition_that_has_its_leader_needs_no_election(kind: int, version: int, broker: Broker, topic: str) -> None:
    asked = [elect_leaders.TopicPartitions(topic=topic, partitions=[0, 7, 0])]
    asked.append(elect_leaders.TopicPartitions(topic="no-such-topic", partitions=[0]))
    response = call(broker, messages.ElectLeadersRequest(election_type=kind, topic_partitions=asked), version)
    assert elected(response) == {
        (topic, 0): ErrorCode.ELECTION_NOT_NEEDED,
        (topic, 7): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ("no-such-topic", 0): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
    assert response.error_code == 0


def test_an_election_for_all_partitions_names_those_that_need_one(broker: Broker, topic: str) -> None:
    response = call(broker, messages.ElectLeadersRequest(election_type=PREFERRED, topic_partitions=None))
    assert (response.error_code, elected(response)) == (0, {})


def test_an_election_of_an_unknown_kind_is_refused(broker: Broker, topic: str) -> None:
    asked = [elect_leaders.TopicPartitions(topic=topic, partitions=[0])]
    response = call(broker, messages.ElectLeadersRequest(election_type=5, topic_partitions=asked))
    assert response.error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert elected(response) == {(topic, 0): ErrorCode.UNKNOWN_SERVER_ERROR}


# --- places ---


def reassigned(broker: Broker, topic: str, *replicas: list[int] | None, first: int = 0) -> list[ErrorCode]:
    partitions = [
        alter_partition_reassignments.ReassignablePartition(partition_index=first + index, replicas=wanted)
        for index, wanted in enumerate(replicas)
    ]
    topics = [alter_partition_reassignments.ReassignableTopic(name=topic, partitions=partitions)]
    response = call(broker, messages.AlterPartitionReassignmentsRequest(topics=topics))
    assert response.error_code == 0
    found = {each.partition_index: ErrorCode(each.error_code) for each in response.responses[0].partitions}
    return [found[index] for index in sorted(found)]


def test_replicas_of_a_single_broker_stay_where_they_are(broker: Broker, topic: str) -> None:
    me = own_id(broker)
    invalid = ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert reassigned(broker, topic, [me]) == [ErrorCode.NONE]
    assert reassigned(broker, topic, [me, me + 1]) == [invalid]
    assert reassigned(broker, topic, [me, me]) == [invalid]
    assert reassigned(broker, topic, []) == [invalid]
    assert reassigned(broker, topic, [-1]) == [invalid]
    assert reassigned(broker, topic, None) == [ErrorCode.NO_REASSIGNMENT_IN_PROGRESS]
    assert reassigned(broker, topic, [me], first=7) == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    assert reassigned(broker, "no-such-topic", [me]) == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    response = call(broker, messages.ListPartitionReassignmentsRequest(topics=None))
    assert (response.error_code, response.topics) == (0, [])


def moved(broker: Broker, path: str, topic: str, index: int = 0) -> ErrorCode:
    topics = [alter_replica_log_dirs.AlterReplicaLogDirTopic(name=topic, partitions=[index])]
    directory = alter_replica_log_dirs.AlterReplicaLogDir(path=path, topics=topics)
    (result,) = call(broker, messages.AlterReplicaLogDirsRequest(dirs=[directory])).results
    return ErrorCode(result.partitions[0].error_code)


def test_a_replica_can_be_left_in_its_log_directory(broker: Broker, topic: str) -> None:
    directories = call(broker, messages.DescribeLogDirsRequest(topics=None)).results
    (own,) = [each.log_dir for each in directories if topic in [entry.name for entry in each.topics]]
    assert moved(broker, own, topic) is ErrorCode.NONE
    assert moved(broker, own, topic, 7) is ErrorCode.REPLICA_NOT_AVAILABLE, "it would be created there"
    assert moved(broker, "/no/such/directory", topic) is ErrorCode.LOG_DIR_NOT_FOUND


# --- quotas ---


Components = tuple[tuple[str, int, str | None], ...]
"""Entity type, match type and name of each component of a filter."""


def quotas(broker: Broker, *components: tuple[str, int, str | None]) -> Any:
    asked = [describe_client_quotas.ComponentData(entity_type=a, match_type=b, match=c) for a, b, c in components]
    return call(broker, messages.DescribeClientQuotasRequest(components=asked))


def test_there_are_no_quotas(broker: Broker) -> None:
    valid: list[Components] = [
        (),
        (("user", 2, None),),
        (("user", 0, "u"), ("client-id", 1, None)),
        (("ip", 2, None),),
    ]
    for components in valid:
        response = quotas(broker, *components)
        assert (response.error_code, response.entries) == (0, [])
    assert quotas(broker, ("nonsense", 2, None)).error_code == ErrorCode.UNSUPPORTED_VERSION
    invalid: list[Components] = [
        (("user", 2, None), ("user", 1, None)),
        (("user", 2, None), ("ip", 2, None)),
        (("", 2, None),),
    ]
    for components in invalid:
        assert quotas(broker, *components).error_code == ErrorCode.INVALID_REQUEST


def quota_change(
    broker: Broker, entity: Sequence[tuple[str, str | None]], key: str, *, remove: bool = False
) -> ErrorCode:
    entry = alter_client_quotas.EntryData(
        entity=[alter_client_quotas.EntityData(entity_type=kind, entity_name=name) for kind, name in entity],
        ops=[alter_client_quotas.OpData(key=key, value=1000.0, remove=remove)],
    )
    (result,) = call(broker, messages.AlterClientQuotasRequest(entries=[entry], validate_only=True)).entries
    assert [(each.entity_type, each.entity_name) for each in result.entity] == list(entity)
    return ErrorCode(result.error_code)


def test_a_quota_that_makes_no_sense_is_refused(broker: Broker) -> None:
    for entity, key in (([("user", "u")], "nonsense"), ([("nonsense", "n")], "producer_byte_rate"), ([], "x")):
        assert quota_change(broker, entity, key) is ErrorCode.INVALID_REQUEST
    assert quota_change(broker, [("user", "u")], "producer_byte_rate", remove=True) is ErrorCode.NONE


# --- passwords ---


def test_no_user_has_a_password(broker: Broker) -> None:
    asked = [describe_user_scram_credentials.UserName(name=name) for name in ("one", "two", "two")]
    response = call(broker, messages.DescribeUserScramCredentialsRequest(users=asked))
    found = {each.user: ErrorCode(each.error_code) for each in response.results}
    assert found == {"one": ErrorCode.RESOURCE_NOT_FOUND, "two": ErrorCode.DUPLICATE_RESOURCE}
    assert call(broker, messages.DescribeUserScramCredentialsRequest(users=None)).results == []


def test_passwords_that_cannot_be_changed_are_refused(broker: Broker) -> None:
    deletion = alter_user_scram_credentials.ScramCredentialDeletion
    upsertion = alter_user_scram_credentials.ScramCredentialUpsertion
    request = messages.AlterUserScramCredentialsRequest(
        deletions=[deletion(name="gone", mechanism=1), deletion(name="odd", mechanism=7)],
        upsertions=[
            upsertion(name="weak", mechanism=1, iterations=1, salt=b"s", salted_password=b"p"),
            upsertion(name="", mechanism=1, iterations=4096, salt=b"s", salted_password=b"p"),
        ],
    )
    assert {each.user: ErrorCode(each.error_code) for each in call(broker, request).results} == {
        "gone": ErrorCode.RESOURCE_NOT_FOUND,
        "odd": ErrorCode.UNSUPPORTED_SASL_MECHANISM,
        "weak": ErrorCode.UNACCEPTABLE_CREDENTIAL,
        "": ErrorCode.UNACCEPTABLE_CREDENTIAL,
    }


def test_a_password_is_stored_and_only_its_mechanism_described(servers: str) -> None:
    change = UserScramCredentialUpsertion("u", ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096), b"password")
    admin = confluent_admin(servers)
    (future,) = admin.alter_user_scram_credentials([change]).values()
    future.result(DEADLINE_S)
    futures = admin.describe_user_scram_credentials(["u"])
    assert isinstance(futures, dict)
    described = futures["u"].result(DEADLINE_S)
    (info,) = described.scram_credential_infos
    assert (info.mechanism, info.iterations) == (ScramMechanism.SCRAM_SHA_256, 4096)


# --- access control ---


def test_access_control_is_off(broker: Broker, servers: str) -> None:
    admin = confluent_admin(servers)
    any_name: Any = None  # which confluent-kafka's types leave out
    everything = AclBindingFilter(
        ResourceType.ANY, any_name, ResourcePatternType.ANY, any_name, any_name, AclOperation.ANY, AclPermissionType.ANY
    )
    binding = AclBinding(
        ResourceType.TOPIC, "t", ResourcePatternType.LITERAL, "User:u", "*", AclOperation.READ, AclPermissionType.ALLOW
    )
    (created,) = admin.create_acls([binding]).values()
    (deleted,) = admin.delete_acls([everything]).values()
    for future in (created, deleted):
        with pytest.raises(KafkaException) as refused:
            future.result(DEADLINE_S)
        assert refused.value.args[0].code() == ErrorCode.SECURITY_DISABLED
    described = call(broker, messages.DescribeAclsRequest(resource_type_filter=1, operation=1, permission_type=1))
    assert (described.error_code, described.resources) == (ErrorCode.SECURITY_DISABLED, [])
    creation = create_acls.AclCreation(resource_type=2, resource_name="t", principal="User:u", host="*", operation=3)
    results = call(broker, messages.CreateAclsRequest(creations=[creation] * 2)).results
    assert [each.error_code for each in results] == [ErrorCode.SECURITY_DISABLED] * 2
    wanted = delete_acls.DeleteAclsFilter(resource_type_filter=2, resource_name_filter="t")
    results = call(broker, messages.DeleteAclsRequest(filters=[wanted])).filter_results
    assert [each.error_code for each in results] == [ErrorCode.SECURITY_DISABLED]


def test_an_anonymous_client_gets_no_token(broker: Broker) -> None:
    refused = ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
    for request in (
        messages.CreateDelegationTokenRequest(max_lifetime_ms=-1),
        messages.DescribeDelegationTokenRequest(owners=None),
        messages.RenewDelegationTokenRequest(hmac=b"x"),
        messages.ExpireDelegationTokenRequest(hmac=b"x"),
    ):
        assert call(broker, request).error_code == refused


# --- features ---

UNSUPPORTED = "Could not apply finalized feature update because the provided feature is not supported."


@pytest.mark.parametrize("version", [0, 1])
def test_no_feature_can_be_finalized_without_kraft(version: int, broker: Broker) -> None:
    updates = [
        update_features.FeatureUpdateKey(feature="metadata.version", max_version_level=7),
        update_features.FeatureUpdateKey(feature="", max_version_level=1),
        update_features.FeatureUpdateKey(feature="gone", max_version_level=0, allow_downgrade=True, upgrade_type=2),
        update_features.FeatureUpdateKey(feature="low", max_version_level=0),
        update_features.FeatureUpdateKey(feature="odd", max_version_level=1, upgrade_type=9),
    ]
    response = call(broker, messages.UpdateFeaturesRequest(feature_updates=updates), version)
    assert (response.error_code, response.error_message) == (0, None)
    assert {each.error_code for each in response.results} == {ErrorCode.INVALID_REQUEST}
    assert {each.feature: each.error_message for each in response.results} == {
        "metadata.version": UNSUPPORTED,
        "": "Feature name can not be empty.",
        "gone": "Can not delete non-existing finalized feature.",
        "low": "Can not provide versionLevel: 0 less than 1 without setting the SAFE downgradeType in the request.",
        "odd": UNSUPPORTED if version == 0 else "Received unknown upgrade type.",
    }
