"""Kafka's own Java code against our transactions: its client, its operators' tool, its reader of our log."""

from pathlib import Path

import pytest

from benchmarks import apache_kafka
from benchmarks.apache_kafka import run_tool
from benchmarks.tidelog_broker import TidelogBroker
from tests.compat.clients.drivers import DRIVERS, Message
from tests.compat.transactions.conftest import SETTINGS, MakeTopic
from tests.compat.transactions.protocol import Rpc
from tests.effort import usually

pytestmark = [pytest.mark.java, pytest.mark.timeout(apache_kafka.MAVEN_SECONDS_MAX + 120)]

TRANSACTIONS = "org.apache.kafka.tools.TransactionsCommand"
COPIER = "org.apache.kafka.tools.TransactionalMessageCopier"


@pytest.fixture(scope="module", autouse=True)
def _jars() -> None:
    reason = apache_kafka.unavailable_reason()
    if reason is not None:
        pytest.skip(reason)


@pytest.mark.parametrize(
    "groups",
    usually(
        [["--group-mode", "--use-group-metadata"]], [[], ["--group-mode"], ["--group-mode", "--use-group-metadata"]]
    ),
    ids=" ".join,
)
def test_the_java_client_copies_a_topic_exactly_once_although_it_aborts_at_random(
    servers: str, make_topic: MakeTopic, name: str, groups: list[str]
) -> None:
    """Consume, produce and commit offsets in transactions, of which about half are aborted and tried again."""
    source, target = make_topic(), make_topic()
    messages = [Message(b"%d" % number) for number in range(200)]
    DRIVERS[0].produce(servers, source, messages)
    said = run_tool(
        COPIER,
        *("--broker-list", servers, "--transactional-id", name, "--consumer-group", f"group-{name}"),
        *("--input-topic", source, "--input-partition", "0", "--output-topic", target),
        *("--transaction-size", "20", "--max-messages", "200", "--enable-random-aborts", *groups),
    )
    assert '"ShutdownComplete"' in said
    copied = DRIVERS[0].consume(servers, target, 200, isolation="read_committed")
    assert [record.value for record in copied] == [message.value for message in messages]


@pytest.mark.long
def test_operators_list_describe_and_abort_with_kafkas_tool(rpc: Rpc, servers: str, topic: str, name: str) -> None:
    producer = rpc.start(name)
    rpc.begin(producer, (topic, 0))
    rpc.write(topic, 0, [b"x"], producer)
    listed = run_tool(TRANSACTIONS, "--bootstrap-server", servers, "list")
    assert [line for line in listed.splitlines() if name in line.split() and "Ongoing" in line]
    described = run_tool(TRANSACTIONS, "--bootstrap-server", servers, "describe", "--transactional-id", name)
    assert f"{topic}-0" in described
    run_tool(
        *(TRANSACTIONS, "--bootstrap-server", servers, "abort"),
        *("--topic", topic, "--partition", "0", "--start-offset", "0"),
    )
    assert rpc.fetch(topic).last_stable_offset == 2
    assert rpc.read(topic) == []


@pytest.mark.long
def test_a_transaction_that_hangs_is_found_with_kafkas_tool(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    """Without verification a producer can still leave one behind, as with brokers before Kafka 3.6."""
    settings = {**SETTINGS, "transaction.partition.verification.enable": "false"}
    with TidelogBroker(tmp_path_factory.mktemp("hanging"), settings) as broker, Rpc(broker.port) as rpc:
        producer = rpc.start("hanging")
        DRIVERS[0].produce(broker.bootstrap_servers, "abandoned", [Message(b"makes the topic")])
        rpc.write("abandoned", 0, [b"x"], producer)
        found = run_tool(
            *(TRANSACTIONS, "--bootstrap-server", broker.bootstrap_servers, "find-hanging"),
            *("--topic", "abandoned", "--max-transaction-timeout", "-5"),
        )
    assert "abandoned" in found
    assert str(producer.producer_id) in found


@pytest.fixture
def closed_log(tmp_path: Path) -> Path:
    """The directory of a broker that has stopped after one commit and one transaction left open."""
    with TidelogBroker(tmp_path, SETTINGS) as broker, Rpc(broker.port) as rpc:
        DRIVERS[0].produce(broker.bootstrap_servers, "t", [Message(b"makes the topic")])
        for name, is_done in (("done", True), ("open", False)):
            producer = rpc.start(name)
            rpc.begin(producer, ("t", 0))
            if is_done:
                rpc.finish(producer, True)
    return broker.log_dir


def test_kafka_reads_our_transaction_log(closed_log: Path) -> None:
    files = sorted(closed_log.glob("__transaction_state-*/*.log"))
    said = apache_kafka.dump_log_segments(files, "--transaction-log-decoder")
    states = [line for line in said.splitlines() if "transactionalId" in line or "transaction_metadata" in line]
    assert states, said
    text = "\n".join(states)
    for word in ("done", "open", "Empty", "Ongoing", "PrepareCommit", "CompleteCommit"):
        assert word in text, f"{word} is missing in {text}"
