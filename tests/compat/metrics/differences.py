"""Where the metrics of a broker differ from those of Kafka 3.9.1 under the usual rules of the JMX exporter, and why."""

from __future__ import annotations

from typing import Final

_NO_THREADS: Final = "fetchers are tasks that begin again after an error: none is ever dead"
_SAME_TURN: Final = "a reply leaves in the turn of the loop in which it is made"
_NO_CONTROL_LOOP: Final = "one event loop serves all listeners, the control plane's too"
_QUEUE_TIMES: Final = "the queues' sizes are shown"
_ZOOKEEPER_ONLY: Final = "a state that only ZooKeeper's own client has"
_NOT_TOLD_APART: Final = (
    "requestmetrics_errors_total has the error of a refused batch: INVALID_RECORD, INVALID_TIMESTAMP and so on"
)
_MOVES: Final = "a move between log directories is shown by DescribeLogDirs and the log"
_VERIFICATION: Final = "verification is part of the time of Produce and of AddPartitionsToTxn"
_MARKERS: Final = "the coordinator retries markers itself: tidelog_transaction_transactionalids shows what is prepared"

MISSING: Final = {
    "kafka_controller_controllerchannelmanager_requestrateandqueuetimems": _QUEUE_TIMES,
    "kafka_controller_controllerchannelmanager_requestrateandqueuetimems_count": _QUEUE_TIMES,
    "kafka_controller_controllereventmanager_eventqueuetimems": "the queue's size and the events' times are shown",
    "kafka_controller_controllereventmanager_eventqueuetimems_count": "the same",
    "kafka_controller_controllerstats_topicuncleanleaderelectionenablerateandtimems": "one event for both",
    "kafka_controller_controllerstats_topicuncleanleaderelectionenablerateandtimems_count": "the same",
    "kafka_controller_controllerstats_updatefeaturesrateandtimems": "there are no features to update",
    "kafka_controller_controllerstats_updatefeaturesrateandtimems_count": "the same",
    "kafka_controller_kafkacontroller_controllerstate": "the number of the event of the moment",
    "kafka_controller_kafkacontroller_replicasineligibletodeletecount": "topicsineligibletodeletecount says as much",
    "kafka_controller_kafkacontroller_replicastodeletecount": "topicstodeletecount says as much",
    "kafka_controller_kafkacontroller_zkmigrationstate": "there is no migration to KRaft",
    "kafka_coordinator_transaction_transactionmarkerchannelmanager_logappendretryqueuesize": _MARKERS,
    "kafka_coordinator_transaction_transactionmarkerchannelmanager_unknowndestinationqueuesize": _MARKERS,
    "kafka_log_logcleanermanager_uncleanable_bytes": "tidelog_logcleaner_uncleanable_bytes: of all log directories",
    "kafka_log_logcleanermanager_uncleanable_partitions_count": "tidelog_logcleaner_uncleanable_partitions: the same",
    "kafka_network_acceptor_acceptorblockedpercent_count": "accepting blocks nothing",
    "kafka_network_requestchannel_responsequeuesize": _SAME_TURN,
    "kafka_network_requestmetrics_responsequeuetimems": _SAME_TURN,
    "kafka_network_requestmetrics_responsequeuetimems_count": _SAME_TURN,
    "kafka_network_socketserver_controlplaneexpiredconnectionskilledcount": _NO_CONTROL_LOOP,
    "kafka_network_socketserver_controlplanenetworkprocessoravgidlepercent": _NO_CONTROL_LOOP,
    "kafka_server_addpartitionstotxnmanager_verificationfailurerate_count": _VERIFICATION,
    "kafka_server_addpartitionstotxnmanager_verificationtimems": _VERIFICATION,
    "kafka_server_addpartitionstotxnmanager_verificationtimems_count": _VERIFICATION,
    "kafka_server_brokertopicmetrics_invalidmagicnumberrecords_total": _NOT_TOLD_APART,
    "kafka_server_brokertopicmetrics_invalidoffsetorsequencerecords_total": _NOT_TOLD_APART,
    "kafka_server_brokertopicmetrics_nokeycompactedtopicrecords_total": _NOT_TOLD_APART,
    "kafka_server_delayedfetchmetrics_expires_total": "a consumer at the end of its partitions lets every fetch expire",
    "kafka_server_kafkarequesthandlerpool_requesthandleravgidlepercent_count": "the count of a share: an artefact",
    "kafka_server_kafkaserver_clusterid": "a text, which the exporter leaves out, too: see tidelog_broker_info",
    "kafka_server_kafkaserver_yammer_metrics_count": "the number of metrics of a Java library",
    "kafka_server_replicaalterlogdirsmanager_deadthreadcount": _NO_THREADS,
    "kafka_server_replicaalterlogdirsmanager_failedpartitionscount": _MOVES,
    "kafka_server_replicaalterlogdirsmanager_maxlag": _MOVES,
    "kafka_server_replicaalterlogdirsmanager_minfetchrate": _MOVES,
    "kafka_server_replicafetchermanager_deadthreadcount": _NO_THREADS,
    "kafka_server_replicafetchermanager_minfetchrate": "rate(kafka_server_fetcherstats_requests_total[1m])",
    "kafka_server_sessionexpirelistener_zookeeperauthfailures_total": _ZOOKEEPER_ONLY,
    "kafka_server_sessionexpirelistener_zookeeperreadonlyconnects_total": _ZOOKEEPER_ONLY,
    "kafka_server_sessionexpirelistener_zookeepersaslauthentications_total": _ZOOKEEPER_ONLY,
    "kafka_utils_throttler_cleaner_io_count": "the cleaner's processes throttle themselves",
}
"""Metrics of Kafka's that a broker does not have."""

ADDED: Final = {
    "kafka_server_client_metrics_instance_count": "of Kafka in KRaft mode; here as well (KIP-714)",
    "kafka_server_client_metrics_throttle_total": "the same",
    "kafka_server_client_metrics_unknown_subscription_request_total": "the same",
    "kafka_consumergroup_current_offset": "of the usual exporters of consumer lag, which are programs of their own",
    "kafka_consumergroup_lag": "the same",
    "kafka_consumergroup_members": "the same",
    "kafka_server_socket_server_metrics_connection_count": "an MBean for which the rules have no name: its default one",
    "kafka_server_socket_server_metrics_connection_creation_total": "the same",
    "kafka_server_socket_server_metrics_failed_authentication_total": "the same",
    "kafka_server_socket_server_metrics_successful_authentication_total": "the same",
    "kafka_server_socket_server_metrics_successful_reauthentication_total": "the same",
}
"""Metrics under Kafka's names that the rules do not give to it. Those of our own begin with `tidelog_`."""

_LAZY: Final = "Kafka shows it by topic, too, once it has counted something there"
_BROKEN_RULE: Final = "the rules make one label of clientId and brokerHost"

OTHER_LABELS: Final = {
    "kafka_server_brokertopicmetrics_bytesrejected_total": _LAZY,
    "kafka_server_brokertopicmetrics_failedfetchrequests_total": _LAZY,
    "kafka_server_brokertopicmetrics_failedproducerequests_total": _LAZY,
    "kafka_server_brokertopicmetrics_fetchmessageconversions_total": _LAZY,
    "kafka_server_brokertopicmetrics_producemessageconversions_total": _LAZY,
    "kafka_server_fetcherstats_bytes_total": _BROKEN_RULE,
    "kafka_server_fetcherstats_requests_total": _BROKEN_RULE,
}
"""Metrics whose labels are others than Kafka's."""

OF_THIS_PROCESS: Final = ("process_", "python_", "tidelog_")
"""Beginnings of names that no MBean of Kafka's has."""
