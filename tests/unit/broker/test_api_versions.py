"""We serve what Kafka 3.9.1 serves in ZooKeeper mode, in its versions, and the later ones that are listed here."""

from __future__ import annotations

from typing import Final

from tests.compat.wire.api_versions import Versions, of_kafka
from tidelog.broker.handlers import broker_handlers, handlers
from tidelog.broker.topology.member import MemberPlan
from tidelog.wire.api_keys import ApiKey

NOT_SERVED_ALONE: Final = {
    ApiKey.LEADER_AND_ISR,
    ApiKey.STOP_REPLICA,
    ApiKey.UPDATE_METADATA,
    ApiKey.CONTROLLED_SHUTDOWN,
    ApiKey.ALTER_PARTITION,
    ApiKey.ENVELOPE,
    ApiKey.ALLOCATE_PRODUCER_IDS,
}
"""Requests between brokers, which a broker that is alone refuses."""
SHARE_GROUPS: Final[dict[int, Versions]] = {
    ApiKey.SHARE_GROUP_HEARTBEAT: (1, 1),
    ApiKey.SHARE_GROUP_DESCRIBE: (1, 1),
    ApiKey.SHARE_FETCH: (1, 2),
    ApiKey.SHARE_ACKNOWLEDGE: (1, 2),
    ApiKey.INITIALIZE_SHARE_GROUP_STATE: (0, 0),
    ApiKey.READ_SHARE_GROUP_STATE: (0, 0),
    ApiKey.WRITE_SHARE_GROUP_STATE: (0, 1),
    ApiKey.DELETE_SHARE_GROUP_STATE: (0, 0),
    ApiKey.READ_SHARE_GROUP_STATE_SUMMARY: (0, 1),
    ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS: (0, 1),
    ApiKey.ALTER_SHARE_GROUP_OFFSETS: (0, 0),
    ApiKey.DELETE_SHARE_GROUP_OFFSETS: (0, 0),
}
"""Share groups (KIP-932) as Kafka 4.4 serves them."""
STREAMS_GROUPS: Final[dict[int, Versions]] = {
    ApiKey.STREAMS_GROUP_HEARTBEAT: (0, 1),
    ApiKey.STREAMS_GROUP_DESCRIBE: (0, 1),
    ApiKey.STREAMS_GROUP_TOPOLOGY_DESCRIPTION_UPDATE: (0, 0),
}
"""Streams groups (KIP-1071, KIP-1331) as Kafka 4.4 serves them."""
OUR_OWN: Final[dict[int, Versions]] = {
    # What Kafka 4.4 serves besides.
    ApiKey.PRODUCE: (0, 13),
    ApiKey.END_TXN: (0, 5),
    ApiKey.WRITE_TXN_MARKERS: (0, 2),
    ApiKey.TXN_OFFSET_COMMIT: (0, 6),
    ApiKey.FETCH: (0, 18),
    ApiKey.LIST_OFFSETS: (0, 11),
    ApiKey.METADATA: (0, 13),
    ApiKey.API_VERSIONS: (0, 5),
    ApiKey.DESCRIBE_LOG_DIRS: (0, 5),
    ApiKey.DELETE_GROUPS: (0, 3),
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: (0, 1),
    ApiKey.UPDATE_FEATURES: (0, 2),
    ApiKey.DESCRIBE_CLUSTER: (0, 2),
    ApiKey.LIST_TRANSACTIONS: (0, 2),
    # Topic ids in offsets, and groups that do not exist as an error.
    ApiKey.OFFSET_COMMIT: (0, 10),
    ApiKey.OFFSET_FETCH: (0, 10),
    ApiKey.DESCRIBE_GROUPS: (0, 6),
    # Settings of groups and of subscriptions to clients' metrics, and those metrics (KIP-714, KIP-1142).
    ApiKey.LIST_CONFIG_RESOURCES: (0, 1),
    ApiKey.GET_TELEMETRY_SUBSCRIPTIONS: (0, 0),
    ApiKey.PUSH_TELEMETRY: (0, 0),
    # The newer group protocol with its regular expressions (KIP-848), and topics described page by page (KIP-966).
    ApiKey.CONSUMER_GROUP_HEARTBEAT: (0, 1),
    ApiKey.CONSUMER_GROUP_DESCRIBE: (0, 1),
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: (0, 0),
    **SHARE_GROUPS,
    **STREAMS_GROUPS,
}


OF_KAFKA_44: Final = frozenset(
    {*range(4), *range(8, 52), 55, 57, 60, 61, *range(64, 67), 68, 69, 71, 72, *range(74, 82), *range(83, 95)}
)
"""The keys of what a broker of Kafka 4.4 serves to clients."""
OF_A_QUORUM: Final = frozenset({55, 64, 80, 81, 94})
"""DescribeQuorum, UnregisterBroker, AddRaftVoter, RemoveRaftVoter and UnregisterController. A broker without a quorum
does not advertise them, as Kafka does not in ZooKeeper mode: a client says that the broker does not support them."""
OF_STREAMS: Final = frozenset({88, 89, 93})


def test_what_kafka_4_4_serves_besides_needs_a_quorum() -> None:
    missing = OF_KAFKA_44 - handlers().keys()
    assert missing <= OF_A_QUORUM | OF_STREAMS


def test_a_broker_that_is_alone_serves_kafkas_versions() -> None:
    expected: dict[int, Versions] = {
        key: versions for key, versions in of_kafka().items() if key not in NOT_SERVED_ALONE
    }
    served = {key: (route.min_version, route.max_version) for key, route in handlers().items()}
    assert served == {**expected, **OUR_OWN}


def test_a_broker_of_a_cluster_serves_nothing_that_kafka_does_not() -> None:
    expected = of_kafka()
    served = {key: (route.min_version, route.max_version) for key, route in broker_handlers(MemberPlan.apis).items()}
    assert served, "a cluster's brokers send each other requests"
    assert served.items() <= expected.items()
