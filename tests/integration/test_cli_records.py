"""`tidelog produce`, `consume`, `perf`, `log dump` and `demo` against a running broker."""

import glob
import json
import os
import signal
import subprocess
import sys
from typing import Any

import pytest

from tests.integration.cli_support import SOURCE, run, run_here
from tests.unit.present import present
from tidelog.client import Producer
from tidelog.client.schemas import AvroSerializer, SchemaRegistry
from tidelog.testing import Broker
from tidelog.testing.registry import SchemaRegistryServer


@pytest.fixture(scope="module")
def broker():
    with Broker(process=True) as broker:
        yield broker


@pytest.fixture
def tidelog(broker):
    return lambda *words, **options: run_here(*words, server=broker.bootstrap_servers, **options)


@pytest.fixture
def topic(broker, request):
    name = request.node.name.replace("[", "-").replace("]", "")
    broker.create_topic(name, partitions=3)
    return name


def test_lines_become_records_and_lines_again(tidelog, topic):
    made = tidelog("produce", topic, "--partition", "1", stdin=b"one\ntwo\n\nlast without newline")
    assert (made.code, made.out, made.err) == (0, "", "4 records acknowledged\n")
    read = tidelog("consume", topic, "--from-beginning", "--until-end")
    assert (read.code, read.out) == (0, "one\ntwo\n\nlast without newline\n")


def test_keys_headers_and_nulls_make_the_round_trip(tidelog, topic):
    words = ["--key-separator", ":", "--null-marker", "-", "--header", "h=1", "--header", "x=y=z", "--format", "json"]
    made = tidelog("produce", topic, *words, stdin=b"alice:3\nbob:-\nalice:4:5\n-:6\n")
    assert made.document == {"topic": topic, "records": 4}
    read = tidelog("consume", topic, "--from-beginning", "--until-end", "--format", "json").lines
    assert sorted((record["key"] or "", record["value"] or "") for record in read) == [
        ("", "6"),
        ("alice", "3"),
        ("alice", "4:5"),
        ("bob", ""),
    ]
    by_key = {record["key"]: record["partition"] for record in read}
    assert [record["value"] for record in read if record["partition"] == by_key["alice"]][:1] == ["3"]
    assert all(
        record["headers"] == [{"name": "h", "value": "1"}, {"name": "x", "value": "y=z"}] and record["topic"] == topic
        for record in read
    )


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_every_codec_makes_the_round_trip(tidelog, topic, codec):
    lines = b"".join(b"line %d of many that look alike\n" % number for number in range(1000))
    assert tidelog("produce", topic, "--compression", codec, "--partition", "0", stdin=lines).code == 0
    assert tidelog("consume", topic, "--offset", "earliest", "--until-end").out.encode() == lines


@pytest.mark.parametrize("acks", ["0", "1", "all"])
def test_every_kind_of_acknowledgement_works(tidelog, topic, acks):
    said = tidelog("produce", topic, "--acks", acks, "--partition", "0", stdin=b"x\n" * 100)
    assert said.err == ("100 records sent\n" if acks == "0" else "100 records acknowledged\n")
    read = tidelog("consume", topic, "--from-beginning", "--max-messages", "100", "--timeout", "30")
    assert read.out == "x\n" * 100


def test_an_unknown_topic_is_made_by_writing_to_it(tidelog):
    assert tidelog("produce", "made-by-producing", stdin=b"x\n").code == 0
    assert tidelog("consume", "made-by-producing", "--from-beginning", "--until-end").out == "x\n"


def test_a_line_without_key_stops_with_an_error(tidelog, topic):
    words = ("produce", topic, "--key-separator", ":")
    refused = tidelog(*words, stdin=b"a:b\nplain\nc:d\n")
    said = "tidelog: line 2: no key separator ':' in 'plain'; 1 record acknowledged before it\n"
    assert (refused.code, refused.err) == (1, said)
    skipped = tidelog(*words, "--bad-lines", "skip", stdin=b"c:d\nplain\ne:f\n")
    assert (skipped.code, skipped.err) == (0, "2 records acknowledged, 1 line skipped\n")
    assert sorted(tidelog("consume", topic, "--from-beginning", "--until-end").out.split()) == ["b", "d", "f"]


def test_a_partition_that_is_not_there_is_refused(tidelog, topic):
    refused = tidelog("produce", topic, "--partition", "9", stdin=b"x\n")
    assert (refused.code, "no partition 9; it has 0 to 2" in refused.err) == (1, True)


def test_a_record_the_topic_refuses_is_reported_with_the_reason(tidelog, broker):
    broker.create_topic("needs-keys", config={"cleanup.policy": "compact"})
    refused = tidelog("produce", "needs-keys", stdin=b"no key\n")
    assert (refused.code, "INVALID_RECORD" in refused.err) == (1, True)


def test_consuming_begins_and_ends_at_the_given_offsets(tidelog, topic):
    tidelog("produce", topic, "--partition", "2", stdin=b"".join(b"%d\n" % number for number in range(10)))
    of = ("consume", topic, "--partition", "2")
    assert tidelog(*of, "--offset", "7", "--until-end").out == "7\n8\n9\n"
    assert tidelog(*of, "--offset", "-2", "--until-end").out == "8\n9\n"
    assert tidelog(*of, "--offset", "-99", "--max-messages", "2").out == "0\n1\n"
    assert tidelog(*of, "--until-end").out == ""
    assert tidelog(*of, "--from-beginning", "--timeout", "0.2").out.count("\n") == 10
    shown = tidelog(*of, "--offset", "9", "--until-end", "--print-offset", "--print-partition", "--print-headers").out
    assert shown == "Partition:2\tOffset:9\tNO_HEADERS\t9\n"
    refused = tidelog(*of, "--offset", "11")
    assert (refused.code, f"no offset 11: {topic}-2 ends at 10" in refused.err) == (1, True)
    refused = tidelog(*of, "--offset", "11", "--until-end")
    assert (refused.code, f"no offset 11: {topic}-2 ends at 10" in refused.err) == (1, True)
    partly = tidelog("consume", topic, "--offset", "7", "--until-end")
    assert (partly.code, partly.out) == (0, "7\n8\n9\n")
    assert f"no offset 7: {topic}-0 ends at 0, {topic}-1 ends at 0" in partly.err
    refused = tidelog(*of, "--offset", "first")
    assert (refused.code, "--offset 'first'" in refused.err) == (1, True)


def test_a_consumer_that_waits_gets_what_is_produced_meanwhile_and_ends_on_an_interrupt(broker, topic):
    environment = {**os.environ, "PYTHONPATH": SOURCE, "TIDELOG_BOOTSTRAP_SERVERS": broker.bootstrap_servers}
    words = [sys.executable, "-m", "tidelog", "consume", topic, "--from-beginning"]
    # A shell that runs the tests in the background lets them, and whatever they start, ignore interrupts.
    was = signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment)
    finally:
        signal.signal(signal.SIGINT, was)
    with process as consumer:
        run("produce", topic, server=broker.bootstrap_servers, stdin=b"hello\n")
        assert present(consumer.stdout).readline() == b"hello\n"
        consumer.send_signal(signal.SIGINT)
        assert consumer.wait(10) == 130
        assert b"Traceback" not in present(consumer.stderr).read()


def test_an_interrupted_producer_says_how_far_it_got(broker, topic):
    environment = {**os.environ, "PYTHONPATH": SOURCE, "TIDELOG_BOOTSTRAP_SERVERS": broker.bootstrap_servers}
    words = [sys.executable, "-m", "tidelog", "produce", topic]
    was = signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        process = subprocess.Popen(words, stdin=subprocess.PIPE, stderr=subprocess.PIPE, env=environment)
    finally:
        signal.signal(signal.SIGINT, was)
    with process as producer:
        present(producer.stdin).write(b"early\n")
        present(producer.stdin).flush()
        reading = ("consume", topic, "--from-beginning", "--max-messages", "1", "--timeout", "30")
        assert run(*reading, server=broker.bootstrap_servers).out == "early\n"
        producer.send_signal(signal.SIGINT)
        assert producer.wait(10) == 130
        said = present(producer.stderr).read().decode()
    assert said.startswith(f"tidelog: interrupted; producing to {topic}: ")
    assert said.count("\n") == 1


def test_input_that_pauses_is_sent_at_once(broker, topic):
    """`tail -f | tidelog produce` must not wait for a batch to fill."""
    environment = {**os.environ, "PYTHONPATH": SOURCE, "TIDELOG_BOOTSTRAP_SERVERS": broker.bootstrap_servers}
    words = [sys.executable, "-m", "tidelog", "produce", topic]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment) as producer:
        present(producer.stdin).write(b"early\n")
        present(producer.stdin).flush()
        reading = ("consume", topic, "--from-beginning", "--max-messages", "1", "--timeout", "30")
        assert run(*reading, server=broker.bootstrap_servers).out == "early\n"
        present(producer.stdin).close()
        assert producer.wait(10) == 0


def test_a_reader_that_goes_away_ends_it_without_a_word(broker, topic, tidelog):
    """As `| head` does."""
    tidelog("produce", topic, stdin=b"x\n" * 50_000)
    environment = {**os.environ, "PYTHONPATH": SOURCE, "TIDELOG_BOOTSTRAP_SERVERS": broker.bootstrap_servers}
    words = [sys.executable, "-m", "tidelog", "consume", topic, "--from-beginning", "--until-end"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment) as consumer:
        assert present(consumer.stdout).readline() == b"x\n"
        present(consumer.stdout).close()
        consumer.wait(30)
        assert present(consumer.stderr).read() == b""


def test_perf_measures_both_ways(tidelog):
    words = ["--records", "5000", "--record-bytes", "50", "--batch-bytes", "5000", "--format", "json"]
    produced = tidelog("perf", "produce", "load", *words).document
    assert produced["records"] >= 5000
    assert produced["records_per_second"] > 0
    assert list(produced["latency_ms"]) == ["p50", "p99", "p99.9", "max"]
    assert produced["latency_ms"]["p50"] <= produced["latency_ms"]["max"]
    consumed = tidelog("perf", "consume", "load", "--fetch-bytes", "20000", "--format", "json").document
    assert consumed["records"] == produced["records"]
    said = tidelog("perf", "produce", "load", "--records", "100", "--acks", "0", "--compression", "lz4").out
    assert "records/s" in said
    assert "p99.9" in said
    (end,) = tidelog("offsets", "load", "--format", "json").document
    assert end["latest"] > produced["records"]


def test_perf_reports_why_it_was_refused(tidelog, broker):
    broker.create_topic("small", config={"max.message.bytes": 1000})
    refused = tidelog("perf", "produce", "small", "--records", "100", "--batch-bytes", "5000")
    assert (refused.code, "MESSAGE_TOO_LARGE" in refused.err) == (1, True)


def test_every_file_of_a_data_directory_can_be_dumped(tidelog, broker, topic):
    tidelog("produce", topic, "--partition", "0", "--key-separator", ":", stdin=b"k:value one\n")
    files = sorted(glob.glob(os.path.join(broker.data_dir, f"{topic}-0", "*")))
    assert {os.path.splitext(file)[1] for file in files} >= {".log", ".index", ".timeindex"}
    log = next(file for file in files if file.endswith(".log"))
    said = tidelog("log", "dump", log, "--print-data-log").out.splitlines()
    assert said[:2] == [f"Dumping {log}", "Log starting offset: 0"]
    assert said[2].startswith("baseOffset: 0 lastOffset: 0 count: 1 baseSequence: 0 lastSequence: 0 producerId: ")
    assert said[2].endswith("isvalid: true")
    assert said[3].startswith("| offset: 0 CreateTime: ")
    assert said[3].endswith("keySize: 1 valueSize: 9 sequence: 0 headerKeys: [] key: k payload: value one")
    rows = tidelog("log", "dump", log, "--deep", "--format", "json").lines
    assert [row["kind"] for row in rows] == ["note", "batch", "record"]
    assert (rows[1]["file"], rows[1]["magic"], rows[2]["valueSize"]) == (log, 2, 9)
    everything = [*files, *(entry.path for entry in os.scandir(broker.data_dir) if "checkpoint" in entry.name)]
    everything = [file for file in everything if not file.endswith(".lock")]
    # The indexes of a segment that is still written are full of zeros, which the dump may tell as Kafka's does.
    dumped = tidelog("log", "dump", *everything)
    assert dumped.err == ""
    assert [line for line in dumped.out.splitlines() if line.startswith("Dumping ")] == [
        f"Dumping {file}" for file in everything
    ]


def test_a_damaged_log_is_reported_and_the_exit_code_is_1(tidelog, broker, topic, tmp_path):
    tidelog("produce", topic, "--partition", "0", stdin=b"x\n")
    (log,) = glob.glob(os.path.join(broker.data_dir, f"{topic}-0", "*.log"))
    with open(log, "rb") as whole:
        (tmp_path / "00000000000000000000.log").write_bytes(whole.read()[:-3])
    damaged = tidelog("log", "dump", str(tmp_path / "00000000000000000000.log"))
    assert damaged.code == 1
    assert "invalid bytes" in damaged.out


def test_the_demo_prints_what_happened_and_what_to_try_next():
    said = run("demo", "broker", "--records", "5000")
    assert said.code == 0, said.err
    assert "5,000 records were produced" in said.out
    assert "5,000 records were consumed" in said.out
    assert "What to try next" in said.out
    assert "broker ready at 127.0.0.1:" in said.err
    assert "consuming: 5,000 of 5,000" in said.err


def test_records_are_copied_as_json_with_their_keys_headers_times_and_partitions(tidelog, broker, topic):
    broker.create_topic(f"{topic}-copy", partitions=3)
    lines = [
        {"key": "a", "value": {"n": n}, "headers": {"n": str(n)}, "timestamp": 1_700_000_000_000 + 1000 * n}
        for n in range(9)
    ]
    given = "\n".join(json.dumps(line) for line in lines).encode()
    assert tidelog("produce", topic, "--input", "json", stdin=given).err == "9 records acknowledged\n"
    read = tidelog("consume", topic, "--from-beginning", "--until-end", "--format", "json").out
    assert tidelog("produce", f"{topic}-copy", "--input", "json", stdin=read.encode()).code == 0
    copied = tidelog("consume", f"{topic}-copy", "--from-beginning", "--until-end", "--format", "json").out
    assert copied == read.replace(f'"{topic}"', f'"{topic}-copy"')


def test_times_and_the_tail_choose_records_and_a_template_prints_them(tidelog, topic):
    rows = "".join(f"{n},v{n},{1_700_000_000_000 + 1000 * n},{n % 3}\n" for n in range(20))
    given = f"key,value,timestamp,partition\n{rows}".encode()
    assert tidelog("produce", topic, "--input", "csv", stdin=given).code == 0
    between = ("--from", "2023-11-14T22:13:25Z", "--until", "2023-11-14T22:13:28Z")
    assert sorted(tidelog("consume", topic, *between).out.split()) == ["v5", "v6", "v7"]
    assert tidelog("consume", topic, "--from", "2h", "--until-end").out == ""
    assert tidelog("consume", topic, "--tail", "4").out.split() == ["v16", "v17", "v18", "v19"]
    assert tidelog("consume", topic, "--tail", "2", "-f", r"%p:%k=%s;").out == "0:18=v18;1:19=v19;"
    assert len(tidelog("consume", topic, "--tail", "1000").out.split()) == 20
    refused = tidelog("consume", topic, "--until", "2100-01-01")
    assert (refused.code, "is in the future" in refused.err) == (1, True)


def test_the_tail_goes_past_offsets_without_records(tidelog, broker, topic):
    """A transaction leaves a marker at the end of its partition, and an aborted one its records."""
    for commits in (True, False):
        with Producer(bootstrap_servers=broker.bootstrap_servers, transactional_id=topic) as producer:
            producer.init_transactions()
            for n in range(6):
                producer.begin()
                producer.send(topic, b"%s-%d" % (b"yes" if commits else b"no", n), partition=0)
                producer.commit() if commits else producer.abort()
    assert tidelog("consume", topic, "--tail", "3", "--read-committed").out.split() == ["yes-3", "yes-4", "yes-5"]


def test_values_with_schemas_are_shown_as_json(tidelog, broker, topic):
    schema = {
        "type": "record",
        "name": "Order",
        "fields": [{"name": "id", "type": "string"}, {"name": "raw", "type": "bytes"}],
    }
    with SchemaRegistryServer() as server:
        serializer: AvroSerializer[Any] = AvroSerializer(SchemaRegistry(server.url), schema)
        with Producer(bootstrap_servers=broker.bootstrap_servers, value_serializer=serializer) as producer:
            producer.send(topic, {"id": "a-1", "raw": b"\xff"}, key=b"plain", partition=0)
        with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
            producer.send(topic, b"\0\0\0\0\x63not there", key=b"k", partition=0)
        words = ("consume", topic, "--from-beginning", "--until-end", "--schema-registry", server.url)
        shown = tidelog(*words, "--print-key")
        assert shown.out.splitlines() == ['plain\t{"id": "a-1", "raw": "ff"}', "k\t\0\0\0\0cnot there"]
        assert shown.err.count("not read with the schema registry") == 1
        first = tidelog(*words, "--format", "json").lines[0]
    assert (first["key"], first["value"], first["value_schema_id"]) == ("plain", {"id": "a-1", "raw": "ff"}, 1)


def test_files_are_a_record_each_and_a_transaction_is_stored_whole_or_not_at_all(tidelog, topic, tmp_path):
    files = [tmp_path / "a", tmp_path / "b"]
    for file in files:
        file.write_bytes(b"two\nlines of " + file.name.encode())
    words = ("produce", topic, "--partition", "0", "--transactional-id", topic)
    assert tidelog(*words, *map(str, files)).err == "2 records acknowledged\n"
    refused = tidelog(*words, "--key-separator", ":", stdin=b"k:aborted\nplain\n")
    assert (refused.code, refused.err.endswith("'plain'; the transaction was aborted\n")) == (1, True)
    assert "--acks 0" in tidelog(*words, "--acks", "0", stdin=b"x\n").err
    read = tidelog("consume", topic, "--from-beginning", "--until-end", "--read-committed", "-f", "%s|")
    assert read.out == "two\nlines of a|two\nlines of b|"


def test_mistyped_topics_and_groups_are_answered_with_the_nearest(tidelog, broker):
    broker.create_topic("invoices")
    assert tidelog("group", "reset", "biller", "--topic", "invoices", "--to-earliest", "--execute").code == 0
    for words in (
        ("topic", "describe", "invoises"),
        ("topic", "delete", "invoises"),
        ("consume", "invoises", "--until-end"),
        ("offsets", "invoises"),
        ("config", "describe", "--topic", "invoises"),
        ("group", "reset", "biller", "--topic", "invoises:0", "--to-earliest"),
    ):
        said = tidelog(*words)
        assert (said.code, said.err.endswith("; did you mean 'invoices'?\n")) == (1, True), said
    for words in (("group", "describe", "bilher"), ("group", "delete", "bilher")):
        said = tidelog(*words)
        assert (said.code, said.err.endswith("; did you mean 'biller'?\n")) == (1, True), said
    assert "did you mean" not in tidelog("topic", "describe", "nothing-like-it").err
