"""`tidelog serve --cores N` as processes: one address, restarts, more and fewer cores, each with a client of ours."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from contextlib import contextmanager

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from tests.integration.cli_support import SOURCE, run
from tests.unit.present import present
from tidelog.client import Admin, NewTopic


@contextmanager
def cores(tmp_path, count, *words):
    """A machine with so many cores; its address and its process. It stops in order at the end of the block."""
    with (tmp_path / "log").open("ab") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "tidelog", "serve", *settings(tmp_path), "--cores", str(count), *words],
            stdout=subprocess.PIPE,
            stderr=log,
            env={**os.environ, "PYTHONPATH": SOURCE},
        )
    try:
        word, ready, address = present(process.stdout).readline().decode().split()
        assert (word, ready) == ("tidelog", "ready")
        yield address, process
        if process.poll() is None:
            process.terminate()
        out, _ = process.communicate(timeout=30)
        assert (process.returncode, out) == (0, b"")
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()


def settings(tmp_path):
    return ["--set", "listeners=PLAINTEXT://127.0.0.1:0", "--set", f"log.dirs={tmp_path / 'data'}"]


def until(is_true, seconds=20):
    deadline = time.monotonic() + seconds
    while not (found := is_true()):
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.05)
    return found


def leaders(address, topic):
    with Admin(bootstrap_servers=address) as admin:
        return [each.leader_id for each in admin.describe_topics([topic])[topic].partitions]


def produce(address, topic, values):
    producer = Producer({"bootstrap.servers": address, "linger.ms": 5})
    failures = []
    for value in values:
        producer.produce(topic, value.encode(), on_delivery=lambda error, _: failures.append(error))
    assert producer.flush(20) == 0
    assert set(failures) == {None}


def read(address, topic, count):
    consumer = Consumer({"bootstrap.servers": address, "group.id": "x", "auto.offset.reset": "earliest"})
    try:
        partitions = present(consumer.list_topics(topic, 10).topics[topic]).partitions
        consumer.assign([TopicPartition(topic, each, 0) for each in partitions])
        found: list[str] = []
        deadline = time.monotonic() + 20
        while len(found) < count and time.monotonic() < deadline:
            found += [present(message.value()).decode() for message in consumer.consume(count, 0.2)]
        return sorted(found)
    finally:
        consumer.close()


def children(process):
    with open(f"/proc/{process.pid}/task/{process.pid}/children", encoding="ascii") as file:
        return [int(word) for word in file.read().split()]


@pytest.mark.skipif(not os.path.exists("/proc/self/task"), reason="the processes are found in /proc")
def test_records_stay_while_a_machine_gets_more_cores_loses_one_and_gets_fewer(tmp_path):
    """One core writes; three take over, spread the partitions, survive a kill -9; one core reads everything."""
    first = [f"a{number}" for number in range(60)]
    second = [f"b{number}" for number in range(60)]
    with cores(tmp_path, 1) as (address, _):
        with Admin(bootstrap_servers=address) as admin:
            admin.create_topics([NewTopic("moved", 6)])
        produce(address, "moved", first)
    with cores(tmp_path, 3) as (address, process):
        assert len(set(leaders(address, "moved"))) == 1
        done = run("cores", "rebalance", *settings(tmp_path), "--format", "json")
        assert done.code == 0, done.err
        assert len(json.loads(done.out)["moves"]) == 4
        spread = until(lambda: -1 not in (found := leaders(address, "moved")) and found)
        assert sorted(spread.count(each) for each in set(spread)) == [2, 2, 2]
        # Made without a count: a partition for each core.
        produce(address, "automatic", second)
        assert len(set(leaders(address, "automatic"))) == len(leaders(address, "automatic")) == 3
        victim = children(process)[-1]
        os.kill(victim, signal.SIGKILL)
        until(lambda: victim not in (now := children(process)) and len(now) == 4)
        until(lambda: -1 not in leaders(address, "moved"))
        produce(address, "moved", second)
        assert read(address, "moved", 120) == sorted(first + second)
    with cores(tmp_path, 1) as (address, _):
        assert len(set(leaders(address, "moved") + leaders(address, "automatic"))) == 1
        assert read(address, "moved", 120) == sorted(first + second)
        assert read(address, "automatic", 60) == sorted(second)
        produce(address, "moved", first)
    assert not (tmp_path / "data" / ".cores").exists()


@pytest.mark.skipif(not os.path.exists("/proc/self/task"), reason="the processes are found in /proc")
def test_a_supervisor_that_is_killed_leaves_nothing_running(tmp_path):
    with cores(tmp_path, 2) as (_, process):
        left = children(process)
        assert len(left) == 3
        process.kill()
        process.wait()
        until(lambda: not any(os.path.exists(f"/proc/{pid}") for pid in left))
        process.returncode = 0
    text = (tmp_path / "log").read_text(encoding="utf-8")
    assert len(re.findall(r"\[core \d\] INFO broker \d+ has stopped", text)) == 2


def test_cores_that_cannot_start_end_with_the_exit_code_of_the_reason(tmp_path):
    refused = run("serve", *settings(tmp_path), "--cores", "many")
    assert refused.code == 2
    assert "tidelog.cores" in refused.err
    above = ["--set", "listeners=PLAINTEXT://127.0.0.1:65500", "--set", f"log.dirs={tmp_path / 'data'}"]
    refused = run("serve", *above, "--cores", "2")
    assert refused.code == 2
    assert "tidelog.cores.port.step" in refused.err
    (tmp_path / "data").mkdir(exist_ok=True)
    (tmp_path / "data" / "not a partition").mkdir()
    refused = run("serve", *settings(tmp_path), "--cores", "2")
    assert refused.code == 1
    assert "not a partition" in refused.err
