"""The MBeans of Kafka 3.9's brokers and clients, and the metric that takes the place of each.

Metrics have the names that the usual configuration of the JMX exporter gives them: `metric_name` is that rule. What
does not follow it, or is not there, says why.
"""

import re
from collections.abc import Mapping
from typing import Final, NamedTuple

# fmt: off
MBEANS: Final[Mapping[str, tuple[str, ...]]] = {
    "kafka.cluster:type=Partition,name={},topic=*,partition=*": (
        "AtMinIsr", "InSyncReplicasCount", "LastStableOffsetLag", "ReplicasCount", "UnderMinIsr", "UnderReplicated",
    ),
    "kafka.controller:type=ControllerChannelManager,name={},broker-id=*": ("QueueSize", "RequestRateAndQueueTimeMs"),
    "kafka.controller:type=ControllerChannelManager,name={}": ("TotalQueueSize",),
    "kafka.controller:type=ControllerEventManager,name={}": ("EventQueueSize", "EventQueueTimeMs"),
    "kafka.controller:type=ControllerStats,name={}": (
        "AutoLeaderBalanceRateAndTimeMs", "ControlledShutdownRateAndTimeMs", "ControllerChangeRateAndTimeMs",
        "ControllerShutdownRateAndTimeMs", "IsrChangeRateAndTimeMs", "LeaderAndIsrResponseReceivedRateAndTimeMs",
        "LeaderElectionRateAndTimeMs", "ListPartitionReassignmentRateAndTimeMs", "LogDirChangeRateAndTimeMs",
        "ManualLeaderBalanceRateAndTimeMs", "PartitionReassignmentRateAndTimeMs", "TopicChangeRateAndTimeMs",
        "TopicDeletionRateAndTimeMs", "TopicUncleanLeaderElectionEnableRateAndTimeMs",
        "UncleanLeaderElectionEnableRateAndTimeMs", "UncleanLeaderElectionsPerSec", "UpdateFeaturesRateAndTimeMs",
    ),
    "kafka.controller:type=KafkaController,name={}": (
        "ActiveBrokerCount", "ActiveControllerCount", "ControllerState", "FencedBrokerCount", "GlobalPartitionCount",
        "GlobalTopicCount", "OfflinePartitionsCount", "PreferredReplicaImbalanceCount",
        "ReplicasIneligibleToDeleteCount", "ReplicasToDeleteCount", "TopicsIneligibleToDeleteCount",
        "TopicsToDeleteCount", "ZkMigrationState",
    ),
    "kafka.coordinator.group:type=GroupMetadataManager,name={}": (
        "NumGroups", "NumGroupsCompletingRebalance", "NumGroupsDead", "NumGroupsEmpty", "NumGroupsPreparingRebalance",
        "NumGroupsStable", "NumOffsets",
    ),
    "kafka.coordinator.transaction:type=TransactionMarkerChannelManager,name={}": (
        "LogAppendRetryQueueSize", "UnknownDestinationQueueSize",
    ),
    "kafka.log:type=Log,name={},topic=*,partition=*": ("LogEndOffset", "LogStartOffset", "NumLogSegments", "Size"),
    "kafka.log:type=LogCleaner,name={}": (
        "DeadThreadCount", "cleaner-recopy-percent", "max-buffer-utilization-percent", "max-clean-time-secs",
        "max-compaction-delay-secs",
    ),
    "kafka.log:type=LogCleanerManager,name={}": ("max-dirty-percent", "time-since-last-run-ms"),
    "kafka.log:type=LogCleanerManager,name={},logDirectory=*": ("uncleanable-bytes", "uncleanable-partitions-count"),
    "kafka.log:type=LogFlushStats,name={}": ("LogFlushRateAndTimeMs",),
    "kafka.log:type=LogManager,name={},logDirectory=*": ("LogDirectoryOffline",),
    "kafka.log:type=LogManager,name={}": ("OfflineLogDirectoryCount",),
    "kafka.network:type=Acceptor,name={},listener=*": ("AcceptorBlockedPercent",),
    "kafka.network:type=Processor,name={},networkProcessor=*": ("IdlePercent",),
    "kafka.network:type=RequestChannel,name={}": ("RequestQueueSize", "ResponseQueueSize"),
    "kafka.network:type=RequestChannel,name={},processor=*": ("ResponseQueueSize",),
    "kafka.network:type=RequestMetrics,name={},request=*,error=*": ("ErrorsPerSec",),
    "kafka.network:type=RequestMetrics,name={},request=*,version=*": ("RequestsPerSec",),
    "kafka.network:type=RequestMetrics,name={},request=*": (
        "LocalTimeMs", "MessageConversionsTimeMs", "RemoteTimeMs", "RequestBytes", "RequestQueueTimeMs",
        "ResponseQueueTimeMs", "ResponseSendTimeMs", "TemporaryMemoryBytes", "ThrottleTimeMs", "TotalTimeMs",
    ),
    "kafka.network:type=SocketServer,name={}": (
        "ControlPlaneExpiredConnectionsKilledCount", "ControlPlaneNetworkProcessorAvgIdlePercent",
        "ExpiredConnectionsKilledCount", "MemoryPoolAvailable", "MemoryPoolUsed", "NetworkProcessorAvgIdlePercent",
    ),
    "kafka.server:type=AddPartitionsToTxnManager,name={}": ("VerificationFailureRate", "VerificationTimeMs"),
    "kafka.server:type=BrokerTopicMetrics,name={},topic=*": (
        "BytesInPerSec", "BytesOutPerSec", "MessagesInPerSec", "TotalFetchRequestsPerSec", "TotalProduceRequestsPerSec",
    ),
    "kafka.server:type=BrokerTopicMetrics,name={}": (
        "BytesInPerSec", "BytesOutPerSec", "BytesRejectedPerSec", "FailedFetchRequestsPerSec",
        "FailedProduceRequestsPerSec", "FetchMessageConversionsPerSec", "InvalidMagicNumberRecordsPerSec",
        "InvalidMessageCrcRecordsPerSec", "InvalidOffsetOrSequenceRecordsPerSec", "MessagesInPerSec",
        "NoKeyCompactedTopicRecordsPerSec", "ProduceMessageConversionsPerSec", "ReassignmentBytesInPerSec",
        "ReassignmentBytesOutPerSec", "ReplicationBytesInPerSec", "ReplicationBytesOutPerSec",
        "TotalFetchRequestsPerSec", "TotalProduceRequestsPerSec",
    ),
    "kafka.server:type=DelayedFetchMetrics,name={},fetcherType=*": ("ExpiresPerSec",),
    "kafka.server:type=DelayedOperationPurgatory,name={},delayedOperation=*": (
        "NumDelayedOperations", "PurgatorySize",
    ),
    "kafka.server:type=FetchSessionCache,name={}": (
        "IncrementalFetchSessionEvictionsPerSec", "NumIncrementalFetchPartitionsCached", "NumIncrementalFetchSessions",
    ),
    "kafka.server:type=FetcherLagMetrics,name={},clientId=*,topic=*,partition=*": ("ConsumerLag",),
    "kafka.server:type=FetcherStats,name={},clientId=*,brokerHost=*,brokerPort=*": ("BytesPerSec", "RequestsPerSec"),
    "kafka.server:type=KafkaRequestHandlerPool,name={}": ("RequestHandlerAvgIdlePercent",),
    "kafka.server:type=KafkaServer,name={}": (
        "BrokerState", "ClusterId", "linux-disk-read-bytes", "linux-disk-write-bytes", "yammer-metrics-count",
    ),
    "kafka.server:type=MetadataLoader,name={}": ("CurrentControllerId",),
    "kafka.server:type=ReplicaAlterLogDirsManager,name={},clientId=*": (
        "DeadThreadCount", "FailedPartitionsCount", "MaxLag", "MinFetchRate",
    ),
    "kafka.server:type=ReplicaFetcherManager,name={},clientId=*": (
        "DeadThreadCount", "FailedPartitionsCount", "MaxLag", "MinFetchRate",
    ),
    "kafka.server:type=ReplicaManager,name={}": (
        "AtMinIsrPartitionCount", "FailedIsrUpdatesPerSec", "IsrExpandsPerSec", "IsrShrinksPerSec", "LeaderCount",
        "OfflineReplicaCount", "PartitionCount", "PartitionsWithLateTransactionsCount", "ProducerIdCount",
        "ReassigningPartitions", "UnderMinIsrPartitionCount", "UnderReplicatedPartitions",
    ),
    "kafka.server:type=SessionExpireListener,name={}": (
        "SessionState", "ZooKeeperAuthFailuresPerSec", "ZooKeeperDisconnectsPerSec", "ZooKeeperExpiresPerSec",
        "ZooKeeperReadOnlyConnectsPerSec", "ZooKeeperSaslAuthenticationsPerSec", "ZooKeeperSyncConnectsPerSec",
    ),
    "kafka.server:type=ZooKeeperClientMetrics,name={}": ("ZooKeeperRequestLatencyMs",),
    "kafka.utils:type=Throttler,name={}": ("cleaner-io",),
}
"""The MBeans that follow the rule: by type and labels, their names."""

_REFUSED: Final = "`kafka_network_requestmetrics_errors_total` has the error of a refused batch"
_ZOOKEEPER: Final = "a state that only ZooKeeper's own client has"
_MOVES: Final = "a move between log directories is shown by DescribeLogDirs and the log"
_MARKERS: Final = "the coordinator retries markers: `tidelog_transaction_transactionalids` shows what is prepared"
_VERIFICATION: Final = "verification is part of the time of Produce and AddPartitionsToTxn"
_SAME_LOOP: Final = "one event loop serves all listeners, the control plane's too"
_SAME_TURN: Final = "a reply leaves in the turn of the event loop in which it is made"

ABSENT: Final[Mapping[str, str]] = {
    "ControllerChannelManager.RequestRateAndQueueTimeMs": "the queues' sizes are shown",
    "ControllerEventManager.EventQueueTimeMs": "the queue's size and the events' times are shown",
    "ControllerStats.TopicUncleanLeaderElectionEnableRateAndTimeMs":
        "one event for both: `kafka_controller_controllerstats_uncleanleaderelectionenablerateandtimems`",
    "ControllerStats.UpdateFeaturesRateAndTimeMs": "an update of features is no event of the controller",
    "KafkaController.ControllerState": "the number of the event of the moment",
    "KafkaController.ReplicasIneligibleToDeleteCount":
        "`kafka_controller_kafkacontroller_topicsineligibletodeletecount` says as much",
    "KafkaController.ReplicasToDeleteCount": "`kafka_controller_kafkacontroller_topicstodeletecount` says as much",
    "KafkaController.ZkMigrationState": "there is no migration to KRaft",
    "TransactionMarkerChannelManager.LogAppendRetryQueueSize": _MARKERS,
    "TransactionMarkerChannelManager.UnknownDestinationQueueSize": _MARKERS,
    "LogCleanerManager.uncleanable-bytes": "of all log directories: `tidelog_logcleaner_uncleanable_bytes`",
    "LogCleanerManager.uncleanable-partitions-count":
        "of all log directories: `tidelog_logcleaner_uncleanable_partitions`",
    "Acceptor.AcceptorBlockedPercent": "accepting blocks nothing",
    "RequestChannel.ResponseQueueSize": _SAME_TURN,
    "RequestMetrics.ResponseQueueTimeMs": _SAME_TURN,
    "SocketServer.ControlPlaneExpiredConnectionsKilledCount": _SAME_LOOP,
    "SocketServer.ControlPlaneNetworkProcessorAvgIdlePercent": _SAME_LOOP,
    "AddPartitionsToTxnManager.VerificationFailureRate": _VERIFICATION,
    "AddPartitionsToTxnManager.VerificationTimeMs": _VERIFICATION,
    "BrokerTopicMetrics.InvalidMagicNumberRecordsPerSec": _REFUSED,
    "BrokerTopicMetrics.InvalidOffsetOrSequenceRecordsPerSec": _REFUSED,
    "BrokerTopicMetrics.NoKeyCompactedTopicRecordsPerSec": _REFUSED,
    "DelayedFetchMetrics.ExpiresPerSec": "a consumer at the end of its partitions lets every fetch expire",
    "KafkaServer.ClusterId": "a text: the label of `tidelog_broker_info`",
    "KafkaServer.yammer-metrics-count": "the number of metrics of a Java library",
    "ReplicaAlterLogDirsManager.DeadThreadCount": _MOVES,
    "ReplicaAlterLogDirsManager.FailedPartitionsCount": _MOVES,
    "ReplicaAlterLogDirsManager.MaxLag": _MOVES,
    "ReplicaAlterLogDirsManager.MinFetchRate": _MOVES,
    "ReplicaFetcherManager.DeadThreadCount": "fetchers are tasks that begin again after an error: none is ever dead",
    "ReplicaFetcherManager.MinFetchRate": "the rate of `kafka_server_fetcherstats_requests_total`",
    "SessionExpireListener.ZooKeeperAuthFailuresPerSec": _ZOOKEEPER,
    "SessionExpireListener.ZooKeeperReadOnlyConnectsPerSec": _ZOOKEEPER,
    "SessionExpireListener.ZooKeeperSaslAuthenticationsPerSec": _ZOOKEEPER,
    "Throttler.cleaner-io": "the cleaner's processes throttle themselves",
}
"""Why there is no metric, by `Type.Name`."""

_TIERED: Final = "tiered storage is not supported"
_KRAFT: Final = "metadata is in ZooKeeper or embedded, not in a KRaft quorum"
_QUOTAS: Final = "`tidelog_quota_used_total`, `tidelog_quota_throttles_total`, `tidelog_quota_throttled_seconds_total`"
_OWN_PAGES: Final = "of Java's clients, which show them themselves. Those of `tidelog.client` are"

OTHERS: Final[Mapping[str, str]] = {
    "kafka.server:type=socket-server-metrics,listener=*,networkProcessor=*": "`kafka_server_socket_server_metrics_"
        "connection_count` and `…_connection_creation_total`, `…_failed_authentication_total`, "
        "`…_successful_authentication_total`, `…_successful_reauthentication_total`; rates are Prometheus' business",
    "kafka.server:type=Produce|Fetch|Request|ControllerMutation,user=*,client-id=*": _QUOTAS,
    "kafka.server:type=LeaderReplication|FollowerReplication|ReplicaAlterLogDirs": "rates of "
        "`kafka_server_brokertopicmetrics_replicationbytesin_total` and "
        "`kafka_server_brokertopicmetrics_replicationbytesout_total`",
    "kafka.server:type=group-coordinator-metrics": "`tidelog_coordinator_loading`; the log has times of loads",
    "kafka.server:type=transaction-coordinator-metrics": "`tidelog_coordinator_loading`, "
        "`tidelog_transaction_transactionalids`",
    "kafka.server:type=app-info": "`tidelog_build_info`, `tidelog_broker_info`",
    "kafka.server:type=kafka-metrics-count": "the number of metrics of a Java library",
    "kafka.server:type=txn-marker-channel-metrics": _MARKERS,
    "kafka.server:type=controller-channel-metrics": "`kafka_controller_controllerchannelmanager_queuesize`",
    "kafka.server:type=replica-fetcher-metrics": "`kafka_server_fetcherstats_bytes_total`, "
        "`kafka_server_fetcherstats_requests_total`",
    "kafka.server:type=raft-metrics": _KRAFT,
    "kafka.server:type=raft-channel-metrics": _KRAFT,
    "kafka.server:type=broker-metadata-metrics": _KRAFT,
    "kafka.controller:type=QuorumController": _KRAFT,
    "kafka.log.remote:type=*": _TIERED,
    "kafka.server:type=BrokerTopicMetrics,name=Remote*": _TIERED,
    "kafka.producer:type=*": f"{_OWN_PAGES} `tidelog_client_*` and `tidelog_producer_*`: `export_metrics`",
    "kafka.consumer:type=*": f"{_OWN_PAGES} `tidelog_client_*` and `tidelog_consumer_*`: `export_metrics`",
    "kafka.admin.client:type=*": f"{_OWN_PAGES} `tidelog_client_*`: `export_metrics`",
    "kafka.connect:type=*": "of Kafka Connect, which is a program of its own",
    "kafka.streams:type=*": "of Kafka Streams, which is a library of the application",
    "java.lang:type=*": "there is no JVM: `process_resident_memory_bytes`, `process_cpu_seconds_total`, "
        "`process_threads`, `python_gc_collections_total`",
}
"""MBeans that the rule does not name, by a pattern."""
# fmt: on

_IRREGULAR: Final = {
    "RequestHandlerAvgIdlePercent": "kafka_server_kafkarequesthandlerpool_requesthandleravgidle_percent",
}


class Mbean(NamedTuple):
    """One MBean. Without a `metric` there is a reason."""

    name: str
    metric: str
    why: str


def mbeans() -> list[Mbean]:
    """Those that follow the rule, in order."""
    found = []
    for pattern, names in MBEANS.items():
        domain, kind = pattern.partition(",name=")[0].split(":type=")
        for name in names:
            why = ABSENT.get(f"{kind}.{name}", "")
            found.append(Mbean(pattern.format(name), "" if why else metric_name(domain, kind, name), why))
    return found


def metric_name(domain: str, kind: str, name: str) -> str:
    """The metric that an MBean becomes: counters end with `_total`, times are summaries under the name itself."""
    if name in _IRREGULAR:
        return _IRREGULAR[name]
    counted = f"{name.removesuffix('PerSec')}_total" if name.endswith("PerSec") else name
    return re.sub(r"[^a-z0-9]", "_", f"{domain}_{kind}_{counted}".lower())
