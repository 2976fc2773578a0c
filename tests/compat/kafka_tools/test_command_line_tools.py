"""Kafka's command line tools work against our broker as they do against Kafka's."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks import frames
from benchmarks.admin import Admin
from benchmarks.apache_kafka import run_tool
from benchmarks.processes import BrokerProcess
from tests.compat.kafka_tools.brokers import MakeBroker
from tests.compat.kafka_tools.zookeeper_nodes import id_text
from tests.effort import usually

pytestmark = pytest.mark.java

CONSOLE_PRODUCER = "kafka.tools.ConsoleProducer"
CONSOLE_CONSUMER = "org.apache.kafka.tools.consumer.ConsoleConsumer"
TOPICS = "org.apache.kafka.tools.TopicCommand"
CONFIGS = "kafka.admin.ConfigCommand"
GET_OFFSETS = "org.apache.kafka.tools.GetOffsetShell"
DELETE_RECORDS = "org.apache.kafka.tools.DeleteRecordsCommand"
LOG_DIRS = "org.apache.kafka.tools.LogDirsCommand"
API_VERSIONS = "kafka.admin.BrokerApiVersionsCommand"
LEADER_ELECTION = "org.apache.kafka.tools.LeaderElectionCommand"
REASSIGN_PARTITIONS = "org.apache.kafka.tools.reassign.ReassignPartitionsCommand"
CLUSTER = "org.apache.kafka.tools.ClusterTool"
TRANSACTIONS = "org.apache.kafka.tools.TransactionsCommand"
PRODUCER_PERFORMANCE = "org.apache.kafka.tools.ProducerPerformance"


@pytest.fixture(scope="module")
def broker(make_broker: MakeBroker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with make_broker(tmp_path_factory.mktemp("tools"), {}) as running:
        yield running


@pytest.fixture
def admin(broker: BrokerProcess) -> Iterator[Admin]:
    with Admin.connect(broker.address) as connection:
        yield connection


def tool(broker: BrokerProcess, main_class: str, *arguments: str, input_text: str = "") -> str:
    return run_tool(main_class, "--bootstrap-server", broker.bootstrap_servers, *arguments, input_text=input_text)


@pytest.mark.parametrize("codec", usually(["zstd"], ["none", "gzip", "snappy", "lz4", "zstd"]))
def test_console_producer_writes_what_console_consumer_reads(broker: BrokerProcess, admin: Admin, codec: str) -> None:
    topic = f"console-{codec}"
    admin.create(topic)
    lines = [f"line {number}" for number in range(20)]
    tool(broker, CONSOLE_PRODUCER, "--topic", topic, "--compression-codec", codec, input_text="\n".join(lines) + "\n")
    printed = tool(
        broker, CONSOLE_CONSUMER, "--topic", topic, "--partition", "0", "--offset", "earliest", "--max-messages", "20"
    )
    assert printed.splitlines() == lines


@pytest.mark.long
def test_console_consumer_begins_at_an_offset_and_shows_keys_and_headers(broker: BrokerProcess, admin: Admin) -> None:
    admin.create("parsed")
    tool(
        broker,
        CONSOLE_PRODUCER,
        "--topic",
        "parsed",
        *("--property", "parse.key=true", "--property", "parse.headers=true"),
        input_text="h:1\tk1\tv1\nh:2\tk2\tv2\n",
    )
    printed = tool(
        broker,
        CONSOLE_CONSUMER,
        *("--topic", "parsed", "--partition", "0", "--offset", "1", "--max-messages", "1"),
        *("--property", "print.key=true", "--property", "print.headers=true", "--property", "print.offset=true"),
    )
    assert printed.splitlines() == ["Offset:1\th:2\tk2\tv2"]


@pytest.mark.long
def test_producer_performance_reports_every_record(broker: BrokerProcess, admin: Admin) -> None:
    admin.create("performance", 3)
    printed = run_tool(
        PRODUCER_PERFORMANCE,
        *("--topic", "performance", "--num-records", "20000", "--record-size", "100", "--throughput", "-1"),
        *("--producer-props", f"bootstrap.servers={broker.bootstrap_servers}", "acks=all", "enable.idempotence=true"),
    )
    assert "20000 records sent" in printed
    assert sum(admin.offsets("performance", range(3)).values()) == 20_000


@pytest.mark.long
def test_get_offset_shell_prints_both_ends(broker: BrokerProcess, admin: Admin) -> None:
    admin.create("ends", 2)
    admin.produce("ends", 1, frames.batch([b"a", b"b", b"c"]))
    assert tool(broker, GET_OFFSETS, "--topic", "ends").splitlines() == ["ends:0:0", "ends:1:3"]
    assert tool(broker, GET_OFFSETS, "--topic", "ends", "--time", "earliest").splitlines() == ["ends:0:0", "ends:1:0"]


@pytest.mark.long
def test_topic_command_creates_describes_grows_and_deletes(broker: BrokerProcess, admin: Admin) -> None:
    tool(broker, TOPICS, "--create", "--topic", "made", "--partitions", "2", "--config", "retention.ms=3600000")
    described = tool(broker, TOPICS, "--describe", "--topic", "made")
    assert "PartitionCount: 2" in described
    assert "ReplicationFactor: 1" in described
    assert "retention.ms=3600000" in described
    assert f"TopicId: {id_text(admin.describe('made').topic_id)}" in described
    tool(broker, TOPICS, "--alter", "--topic", "made", "--partitions", "5")
    assert len(admin.describe("made").leaders) == 5
    assert "made" in tool(broker, TOPICS, "--list").split()
    tool(broker, TOPICS, "--delete", "--topic", "made")
    assert "made" not in tool(broker, TOPICS, "--list").split()


@pytest.mark.long
def test_config_command_changes_a_topic_and_shows_where_a_value_comes_from(broker: BrokerProcess, admin: Admin) -> None:
    admin.create("tuned")
    entity = ("--entity-type", "topics", "--entity-name", "tuned")
    tool(broker, CONFIGS, *entity, "--alter", "--add-config", "segment.bytes=1048576,cleanup.policy=[compact,delete]")
    described = tool(broker, CONFIGS, *entity, "--describe")
    assert "segment.bytes=1048576 sensitive=false synonyms={DYNAMIC_TOPIC_CONFIG:segment.bytes=1048576" in described
    assert "cleanup.policy=compact,delete" in described
    tool(broker, CONFIGS, *entity, "--alter", "--delete-config", "segment.bytes")
    everything = tool(broker, CONFIGS, *entity, "--describe", "--all")
    assert "segment.bytes=1073741824 sensitive=false synonyms={" in everything


@pytest.mark.long
def test_config_command_lists_and_changes_broker_settings(broker: BrokerProcess, admin: Admin) -> None:
    admin.create("any")
    entity = ("--entity-type", "brokers", "--entity-name", str(admin.describe("any").leaders[0]))
    tool(broker, CONFIGS, *entity, "--alter", "--add-config", "log.cleaner.threads=2")
    described = tool(broker, CONFIGS, *entity, "--describe", "--all")
    assert "log.cleaner.threads=2 sensitive=false synonyms={DYNAMIC_BROKER_CONFIG:log.cleaner.threads=2" in described
    assert "num.io.threads=8" in described


@pytest.mark.long
def test_delete_records_moves_the_log_start(broker: BrokerProcess, admin: Admin, tmp_path: Path) -> None:
    admin.create("trimmed")
    admin.produce("trimmed", 0, frames.batch([b"a", b"b", b"c"]))
    wanted = tmp_path / "offsets.json"
    wanted.write_text(json.dumps({"partitions": [{"topic": "trimmed", "partition": 0, "offset": 2}], "version": 1}))
    assert "low_watermark: 2" in tool(broker, DELETE_RECORDS, "--offset-json-file", str(wanted))
    assert admin.offsets("trimmed", timestamp=frames.EARLIEST) == {0: 2}


@pytest.mark.long
def test_log_dirs_prints_the_size_of_each_partition(broker: BrokerProcess, admin: Admin) -> None:
    admin.create("sized")
    records = frames.batch([b"x" * 500])
    admin.produce("sized", 0, records)
    answer = json.loads(tool(broker, LOG_DIRS, "--describe", "--topic-list", "sized").splitlines()[-1])
    (directory,) = answer["brokers"][0]["logDirs"]
    assert directory["error"] is None
    assert [(part["partition"], part["size"]) for part in directory["partitions"]] == [("sized-0", len(records))]


@pytest.mark.long
def test_transactions_tool_shows_the_producers_of_a_partition(broker: BrokerProcess, admin: Admin) -> None:
    admin.create("produced")
    admin.produce("produced", 0, frames.batch([b"a", b"b"], (4_000, 2, 0)))
    printed = tool(broker, TRANSACTIONS, "describe-producers", "--topic", "produced", "--partition", "0")
    assert printed.splitlines()[-1].split()[:4] == ["4000", "2", "-1", "1"]


def test_every_api_that_we_claim_is_usable_by_kafkas_own_client(broker: BrokerProcess) -> None:
    """The tool marks what its client cannot speak; what we do not serve must not be listed as served."""
    printed = tool(broker, API_VERSIONS)
    assert "Produce(0): 0 to 13 [usable: 11]" in printed
    assert "ERROR" not in printed


@pytest.mark.long
def test_cluster_tool_prints_the_cluster_id(broker: BrokerProcess) -> None:
    printed = run_tool(CLUSTER, "cluster-id", "--bootstrap-server", broker.bootstrap_servers)
    assert printed.startswith("Cluster ID: ")


@pytest.mark.long
def test_elections_reassignments_and_quotas_are_answered(broker: BrokerProcess, admin: Admin) -> None:
    """On one broker nothing has to be elected or moved, and no quota is set."""
    admin.create("settled")
    printed = tool(broker, LEADER_ELECTION, "--election-type", "preferred", "--topic", "settled", "--partition", "0")
    assert "Valid replica already elected for partitions settled-0" in printed
    assert "No partition reassignments found." in tool(broker, REASSIGN_PARTITIONS, "--list")
    assert tool(broker, CONFIGS, "--describe", "--entity-type", "users").strip() == ""
