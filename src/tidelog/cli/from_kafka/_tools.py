"""What takes the place of each command line tool of Kafka 3.9. Kafka's own tools work with these brokers as well."""

from collections.abc import Mapping
from typing import Final, NamedTuple


class Tool(NamedTuple):
    """One use of a tool. `command` is empty where there is nothing, and `note` says why."""

    options: str
    command: str
    note: str = ""


_CONNECT: Final = "Kafka Connect is a program of its own and works with these brokers: keep its scripts"
_KRAFT: Final = "there is no KRaft quorum: metadata is in ZooKeeper or embedded"

TOOLS: Final[Mapping[str, tuple[Tool, ...]]] = {
    "connect-distributed.sh": (Tool("", "", _CONNECT),),
    "connect-mirror-maker.sh": (Tool("", "", _CONNECT),),
    "connect-plugin-path.sh": (Tool("", "", _CONNECT),),
    "connect-standalone.sh": (Tool("", "", _CONNECT),),
    "kafka-acls.sh": (
        Tool("--add", "tidelog acl add"),
        Tool("--list", "tidelog acl list"),
        Tool("--remove", "tidelog acl remove"),
        Tool("--producer, --consumer", "tidelog acl add", "name the operations: write and describe, or read"),
    ),
    "kafka-broker-api-versions.sh": (Tool("", "", "Kafka's script works; README.md has the APIs"),),
    "kafka-client-metrics.sh": (
        Tool(
            "--alter",
            "tidelog config alter --client-metrics",
            "`--set` for `--metrics`, `--interval`, `--match`",
        ),
        Tool("--describe", "tidelog config describe --client-metrics"),
        Tool("--delete", "tidelog config alter --client-metrics", "`--delete` for each setting"),
    ),
    "kafka-cluster.sh": (
        Tool("cluster-id", "", "the label `cluster_id` of the metric `tidelog_broker_info`"),
        Tool("unregister", "", _KRAFT),
    ),
    "kafka-configs.sh": (
        Tool("--describe --entity-type topics|brokers", "tidelog config describe"),
        Tool("--alter --entity-type topics|brokers", "tidelog config alter"),
        Tool("--entity-type broker-loggers", "tidelog config alter --broker-logger"),
        Tool("--entity-type users|clients|ips (quotas)", "tidelog quota set", "and `quota list`, `quota remove`"),
        Tool("--entity-type users (SCRAM)", "tidelog user add", "and `user list`, `user delete`"),
    ),
    "kafka-console-consumer.sh": (
        Tool("", "tidelog consume", "properties of the formatter are options, such as --print-key"),
    ),
    "kafka-console-producer.sh": (Tool("", "tidelog produce", "--property key.separator=: is --key-separator :"),),
    "kafka-consumer-groups.sh": (
        Tool("--list", "tidelog group list"),
        Tool("--describe", "tidelog group describe"),
        Tool("--reset-offsets", "tidelog group reset", "a dry run unless --execute is given, as in Kafka"),
        Tool("--delete", "tidelog group delete"),
        Tool("--delete-offsets", "tidelog group delete --topic"),
    ),
    "kafka-consumer-perf-test.sh": (Tool("", "tidelog perf consume"),),
    "kafka-delegation-tokens.sh": (
        Tool("--create", "tidelog token create"),
        Tool("--describe", "tidelog token list"),
        Tool("--renew", "tidelog token renew"),
        Tool("--expire", "tidelog token expire"),
    ),
    "kafka-delete-records.sh": (Tool("", "tidelog delete-records"),),
    "kafka-dump-log.sh": (Tool("", "tidelog log dump", "the same options and the same lines"),),
    "kafka-e2e-latency.sh": (Tool("", "", "`python -m benchmarks` measures it in a clone of the repository"),),
    "kafka-features.sh": (
        Tool("describe", "tidelog features describe"),
        Tool("upgrade", "tidelog features upgrade", "a feature and its level are one word: transaction.version=2"),
        Tool("downgrade", "tidelog features downgrade", "--unsafe as in Kafka; `disable` is level 0"),
    ),
    "kafka-get-offsets.sh": (Tool("", "tidelog offsets"),),
    "kafka-jmx.sh": (Tool("", "", "metrics are served over HTTP: `metrics.listeners` and curl"),),
    "kafka-leader-election.sh": (
        Tool("--election-type preferred", "tidelog elect"),
        Tool("--election-type unclean", "tidelog elect --unclean"),
    ),
    "kafka-log-dirs.sh": (
        Tool("", "tidelog doctor", "names disks that fill; `kafka_log_log_size` has the sizes of logs"),
    ),
    "kafka-metadata-quorum.sh": (Tool("", "", _KRAFT),),
    "kafka-metadata-shell.sh": (Tool("", "", _KRAFT),),
    "kafka-mirror-maker.sh": (Tool("", "", _CONNECT + ", as connect-mirror-maker.sh"),),
    "kafka-producer-perf-test.sh": (Tool("", "tidelog perf produce"),),
    "kafka-reassign-partitions.sh": (
        Tool("--generate", "tidelog reassign generate", "--broker-list is --brokers; the plans are Kafka's JSON"),
        Tool("--execute", "tidelog reassign execute", "--throttle and --replica-alter-log-dirs-throttle are the same"),
        Tool("--verify", "tidelog reassign verify"),
        Tool("--cancel", "tidelog reassign cancel"),
        Tool("(more replicas)", "tidelog topic alter --replication-factor", "or `reassign generate` with it"),
    ),
    "kafka-replica-verification.sh": (
        Tool("", "tidelog topic describe --under-replicated", "what is in sync, not what is equal"),
    ),
    "kafka-run-class.sh": (Tool("", "", "there is no JVM"),),
    "kafka-server-start.sh": (Tool("", "tidelog serve --config", "--override name=value is --set name=value"),),
    "kafka-server-stop.sh": (Tool("", "", "SIGTERM is a controlled shutdown; `tidelog cluster down` for one machine"),),
    "kafka-storage.sh": (Tool("format", "", "a directory needs no format: `tidelog serve` makes what it needs"),),
    "kafka-streams-application-reset.sh": (
        Tool("", "tidelog group reset", "and `topic delete` for internal topics; Kafka's script works, too"),
    ),
    "kafka-topics.sh": (
        Tool("--create", "tidelog topic create"),
        Tool("--list", "tidelog topic list"),
        Tool("--describe", "tidelog topic describe"),
        Tool("--alter --partitions", "tidelog topic alter", "settings and the number of replicas as well"),
        Tool("--delete", "tidelog topic delete"),
        Tool("--under-replicated-partitions", "tidelog topic describe --under-replicated"),
        Tool("--unavailable-partitions", "tidelog topic describe --unavailable"),
    ),
    "kafka-transactions.sh": (
        Tool("list", "tidelog transactions list"),
        Tool("describe", "tidelog transactions describe"),
        Tool("describe-producers", "tidelog transactions find-hanging", "those that hang"),
        Tool("abort", "tidelog transactions abort"),
        Tool("find-hanging", "tidelog transactions find-hanging"),
    ),
    "kafka-verifiable-consumer.sh": (Tool("", "", "a tool of Kafka's system tests; it works with these brokers"),),
    "kafka-verifiable-producer.sh": (Tool("", "", "a tool of Kafka's system tests; it works with these brokers"),),
    "trogdor.sh": (Tool("", "", "a tool of Kafka's system tests; here: `make chaos`"),),
    "zookeeper-security-migration.sh": (Tool("", "", "Kafka's script works: the nodes are Kafka's"),),
    "zookeeper-server-start.sh": (
        Tool("", "tidelog cluster up --zookeeper", "for one machine; else ZooKeeper's own script"),
    ),
    "zookeeper-server-stop.sh": (Tool("", "tidelog cluster down", "for one machine; else ZooKeeper's own script"),),
    "zookeeper-shell.sh": (Tool("", "", "ZooKeeper's own script works: the nodes are Kafka's"),),
}
