"""`tidelog topic`, `config`, `offsets` and `delete-records` against a running broker."""

import json
import socket

import pytest

from tests.integration.cli_support import run, run_here
from tidelog.client import Admin, Producer
from tidelog.testing import Broker


@pytest.fixture(scope="module")
def broker():
    with Broker({"auto.create.topics.enable": False}, process=True) as broker:
        yield broker


@pytest.fixture
def tidelog(broker):
    return lambda *words, **options: run_here(*words, server=broker.bootstrap_servers, **options)


@pytest.fixture
def topic(broker, request):
    name = request.node.name.replace("[", "-").replace("]", "")
    broker.create_topic(name, partitions=2)
    return name


def test_a_topic_without_delays_is_said_to_have_none(tidelog, topic):
    said = tidelog("delay", "list", topic).out
    assert f"`tidelog topic alter {topic} --config tidelog.delay.enable=true`" in said


def test_leaders_that_stay_are_counted(broker, tidelog, topic):
    assert tidelog("elect", "--topic", topic).out == "0 leaders elected, 2 unchanged\n"
    with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        described = admin.describe_all_topics(include_internal=True).values()
    count = sum(len(each.partitions) for each in described)
    assert tidelog("elect").out == f"0 leaders elected, {count} unchanged\n"


def test_a_topic_is_created_listed_described_and_deleted(tidelog):
    made = tidelog("topic", "create", "life", "-p", "3", "-c", "retention.ms=1000", "--format", "json").document
    assert (made["name"], made["partitions"], made["replication_factor"], made["created"]) == ("life", 3, 1, True)
    assert "life" in tidelog("topic", "list").out.splitlines()
    listed = {topic["name"]: topic for topic in tidelog("topic", "list", "--format", "json").document}
    assert listed["life"] == {"name": "life", "topic_id": made["topic_id"], "partitions": 3, "internal": False}
    (described,) = tidelog("topic", "describe", "life", "--format", "json").document
    assert described["topic_id"] == made["topic_id"]
    assert described["configs"] == {"retention.ms": "1000"}
    assert [part["partition"] for part in described["partitions"]] == [0, 1, 2]
    assert all(part["isr"] == part["replicas"] == [part["leader"]] for part in described["partitions"])
    assert tidelog("topic", "delete", "life").out == "Deleted topic life.\n"
    assert "life" not in tidelog("topic", "list").out.splitlines()


def test_describe_prints_kafkas_lines(tidelog, topic):
    said = tidelog("topic", "describe", topic).out.splitlines()
    fields = dict(field.split(": ", 1) for field in said[0].split("\t"))
    assert list(fields) == ["Topic", "TopicId", "PartitionCount", "ReplicationFactor", "Configs"]
    assert (fields["Topic"], fields["PartitionCount"], fields["ReplicationFactor"]) == (topic, "2", "1")
    leader = said[1].split("Leader: ")[1].split("\t")[0]
    assert said[1] == f"\tTopic: {topic}\tPartition: 0\tLeader: {leader}\tReplicas: {leader}\tIsr: {leader}"
    assert len(said) == 3


def test_a_topic_that_exists_is_an_error_unless_that_is_fine(tidelog, topic):
    refused = tidelog("topic", "create", topic)
    assert refused.code == 1
    assert topic in refused.err
    assert "TOPIC_ALREADY_EXISTS" in refused.err
    assert tidelog("topic", "create", topic, "--if-not-exists").out == f"Topic {topic} already exists.\n"


def test_validation_leaves_no_trace(tidelog):
    assert tidelog("topic", "create", "maybe", "--validate-only").out == "Topic maybe could be created.\n"
    assert "maybe" not in tidelog("topic", "list").out.splitlines()


def test_partitions_can_be_added_and_not_taken_away(tidelog, topic):
    assert tidelog("topic", "alter", topic, "--partitions", "5").out == f"Altered topic {topic}: 5 partitions.\n"
    assert len(tidelog("topic", "describe", topic, "--format", "json").document[0]["partitions"]) == 5
    refused = tidelog("topic", "alter", topic, "--partitions", "2")
    assert (refused.code, "INVALID_PARTITIONS" in refused.err) == (1, True)


@pytest.mark.parametrize(
    "words",
    [
        ("topic", "describe", "no-such"),
        ("topic", "delete", "no-such"),
        ("topic", "alter", "no-such", "--partitions", "2"),
        ("config", "describe", "--topic", "no-such"),
        ("config", "alter", "--topic", "no-such", "--set", "retention.ms=1"),
        ("offsets", "no-such"),
        ("delete-records", "no-such", "--before", "1"),
        ("consume", "no-such"),
        ("perf", "consume", "no-such"),
        pytest.param(("perf", "produce", "no-such"), marks=pytest.mark.long),  # each waits five seconds for the topic
        ("produce", "no-such"),
    ],
)
def test_a_wrong_topic_is_named_on_stderr_with_exit_code_1(tidelog, words):
    refused = tidelog(*words, stdin=b"line\n")
    assert refused.code == 1
    assert refused.out == ""
    assert "no-such" in refused.err
    assert "UNKNOWN_TOPIC_OR_PARTITION" in refused.err
    assert refused.err.count("\n") == 1


def test_deleting_what_is_not_there_can_be_fine(tidelog):
    assert tidelog("topic", "delete", "no-such", "--if-exists", "--format", "json").document == {"deleted": []}


def test_what_was_deleted_before_a_topic_failed_is_printed(tidelog):
    for words in ("a", "b"):
        tidelog("topic", "create", words)
    failed = tidelog("topic", "delete", "a", "no-such", "b", "--format", "json")
    assert failed.code == 1
    assert json.loads(failed.out) == {"deleted": ["a"]}
    assert tidelog("topic", "delete", "b", "no-such").out == "Deleted topic b.\n"


def test_an_illegal_name_is_refused(tidelog):
    refused = tidelog("topic", "create", "no spaces")
    assert (refused.code, "INVALID_TOPIC_EXCEPTION" in refused.err) == (1, True)


def test_a_topic_setting_is_altered_described_and_taken_back(tidelog, topic):
    of = ("--topic", topic)
    assert "No setting" in tidelog("config", "describe", *of).out
    said = tidelog("config", "alter", *of, "--set", "retention.ms=5000", "--set", "cleanup.policy=compact")
    assert said.out == f"Altered retention.ms, cleanup.policy of topic {topic}.\n"
    assert tidelog("config", "alter", *of, "--append", "cleanup.policy=delete").code == 0
    shown = {config["name"]: config for config in tidelog("config", "describe", *of, "--format", "json").document}
    assert {name: config["value"] for name, config in shown.items()} == {
        "cleanup.policy": "compact,delete",
        "retention.ms": "5000",
    }
    assert shown["retention.ms"]["source"] == "topic"
    assert tidelog("config", "alter", *of, "--delete", "retention.ms", "--delete", "cleanup.policy").code == 0
    everything = tidelog("config", "describe", *of, "--all", "--docs", "--format", "json").document
    values = {config["name"]: config for config in everything}
    assert values["retention.ms"]["value"] == "604800000"
    assert values["retention.ms"]["source"] == "default"
    assert values["retention.ms"]["documentation"]
    assert len(values) > 25


def test_settings_are_shown_as_a_table(tidelog, topic):
    tidelog("topic", "alter", topic, "-c", "segment.bytes=1048576")
    said = tidelog("config", "describe", "--topic", topic).out.splitlines()
    assert said[0].split() == ["NAME", "VALUE", "FROM", "READ-ONLY"]
    assert said[1].split() == ["segment.bytes", "1048576", "topic", "-"]


def test_a_wrong_value_is_named_and_nothing_changes(tidelog, topic):
    refused = tidelog("config", "alter", "--topic", topic, "--set", "segment.bytes=1", "--set", "retention.ms=7")
    assert refused.code == 1
    assert "segment.bytes" in refused.err
    assert "INVALID_CONFIG" in refused.err
    assert tidelog("config", "describe", "--topic", topic, "--format", "json").document == []


def test_an_unknown_setting_is_named(tidelog, topic):
    refused = tidelog("config", "alter", "--topic", topic, "--set", "no.such=1")
    assert refused.code == 1
    assert "no.such" in refused.err


def test_a_brokers_settings_are_described_and_altered(tidelog):
    (described,) = tidelog("topic", "describe", "--format", "json").document[:1] or [None]
    broker_id = str(described["partitions"][0]["leader"])
    listed = tidelog("config", "describe", "--broker", broker_id, "--all", "--format", "json").document
    values = {config["name"]: config for config in listed}
    assert values["auto.create.topics.enable"]["value"] == "false"
    assert values["auto.create.topics.enable"]["source"] == "static"
    assert tidelog("config", "alter", "--broker", broker_id, "--set", "log.retention.ms=99999").code == 0
    (one,) = tidelog("config", "describe", "--broker", broker_id, "--format", "json").document
    assert (one["name"], one["value"], one["source"]) == ("log.retention.ms", "99999", "broker")
    assert tidelog("config", "alter", "--broker", broker_id, "--delete", "log.retention.ms").code == 0
    refused = tidelog("config", "describe", "--broker", "4711")
    assert (refused.code, "no broker 4711" in refused.err) == (1, True)


def test_settings_of_all_brokers_are_kept_apart(tidelog):
    assert tidelog("config", "alter", "--broker-defaults", "--set", "log.retention.ms=88888").code == 0
    (one,) = tidelog("config", "describe", "--broker-defaults", "--format", "json").document
    assert (one["name"], one["value"], one["source"]) == ("log.retention.ms", "88888", "all brokers")
    assert tidelog("config", "alter", "--broker-defaults", "--delete", "log.retention.ms").code == 0


def test_the_reference_page_needs_no_broker():
    page = run_here("config", "reference")
    assert page.code == 0
    assert page.out.startswith("# ")
    assert "log.retention.hours" in page.out


def test_offsets_are_found_by_end_and_by_time(tidelog, broker, topic):
    with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
        for number in range(10):
            producer.send(topic, b"x", timestamp_ms=1_700_000_000_000 + number * 1000, partition=1)
    assert tidelog("offsets", topic).out.splitlines() == [
        "PARTITION  EARLIEST  LATEST  OFFSETS",
        "        0         0       0        0",
        "        1         0      10       10",
    ]
    assert tidelog("offsets", topic, "--format", "json").document == [
        {"partition": 0, "earliest": 0, "latest": 0},
        {"partition": 1, "earliest": 0, "latest": 10},
    ]
    by_time = tidelog("offsets", topic, "--time", "1700000003500", "--format", "json").document
    assert [(found["offset"], found["timestamp"]) for found in by_time] == [(None, None), (4, 1_700_000_004_000)]
    by_date = tidelog("offsets", topic, "--time", "2023-11-14T22:13:29Z", "--partition", "1").out.splitlines()
    assert by_date[1].split() == ["1", "9", "2023-11-14T22:13:29.000Z"]
    latest = tidelog("offsets", topic, "--time", "max-timestamp", "--partition", "1", "--format", "json").document
    assert latest[0]["offset"] == 9
    refused = tidelog("offsets", topic, "--partition", "7")
    assert (refused.code, "no partition 7" in refused.err) == (1, True)


def test_records_are_deleted_up_to_an_offset(tidelog, broker, topic):
    with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
        for _ in range(10):
            producer.send(topic, b"x", partition=0)
    deleted = tidelog("delete-records", topic, "--partition", "0", "--before", "4", "--format", "json")
    assert deleted.document == [{"partition": 0, "earliest": 4}]
    assert tidelog("offsets", topic, "--format", "json").document[0] == {"partition": 0, "earliest": 4, "latest": 10}
    assert tidelog("delete-records", topic, "--before", "latest").out.splitlines()[1].split() == ["0", "10"]
    refused = tidelog("delete-records", topic, "--partition", "0", "--before", "99")
    assert (refused.code, "OFFSET_OUT_OF_RANGE" in refused.err) == (1, True)


def test_a_broker_that_is_down_is_named_with_the_option_to_check():
    with socket.create_server(("127.0.0.1", 0)) as unused:
        address = f"127.0.0.1:{unused.getsockname()[1]}"
    refused = run("topic", "list", "--bootstrap-server", address)
    assert refused.code == 1
    assert f"no broker at {address}: Connection refused (check bootstrap.servers or --bootstrap-server)" in refused.err


def test_a_client_files_setting_without_effect_is_named_and_its_address_used(tmp_path):
    file = tmp_path / "client.properties"
    file.write_text("bootstrap.servers=127.0.0.1:1\nretries=3\n", encoding="utf-8")
    refused = run_here("topic", "list", "--command-config", str(file))
    assert refused.code == 1
    assert "retries is not a setting of this client" in refused.err
    assert "no broker at 127.0.0.1:1" in refused.err


def test_the_option_wins_over_the_environment_and_both_over_the_file(broker, tmp_path):
    file = tmp_path / "client.properties"
    file.write_text("bootstrap.servers=127.0.0.1:1\n", encoding="utf-8")
    right = broker.bootstrap_servers
    assert run_here("topic", "list", "--bootstrap-server", right, server="127.0.0.1:1").code == 0
    assert run_here("topic", "list", "--command-config", str(file), server=right).code == 0
    file.write_text(f"bootstrap.servers={right}\n", encoding="utf-8")
    assert run_here("topic", "list", "--command-config", str(file)).code == 0
