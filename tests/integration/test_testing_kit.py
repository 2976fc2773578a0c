"""The kit as users have it: brokers in this process and in processes of their own, and the pytest fixture."""

import os
import socket
import subprocess
import sys
import threading

import pytest

from tests.integration.inside import Inside
from tidelog.client import Admin, BrokerUnavailable, Consumer, DeadlinePassed, Producer, TopicPartition
from tidelog.testing import Broker, BrokerFailed

PROCESS = pytest.mark.parametrize("process", [False, True], ids=["in-process", "subprocess"])


def write(broker, topic, values):
    with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
        for delivery in [producer.send(topic, value) for value in values]:
            delivery.result(20)


def read(broker, topic):
    at = TopicPartition(topic, 0)
    with Consumer(bootstrap_servers=broker.bootstrap_servers, auto_offset_reset="earliest") as consumer:
        consumer.assign([at])
        end = consumer.end_offsets(at)[at]
        found = []
        while consumer.position(at) < end:
            found += [record.value for record in consumer.poll(1)]
    return found


def reach(broker):
    with Admin(bootstrap_servers=broker.bootstrap_servers, bootstrap_timeout_ms=0) as admin:
        return admin.list_topics()


@PROCESS
def test_a_broker_serves_and_leaves_nothing_behind(process):
    with Broker(process=process) as broker:
        broker.create_topic("t", partitions=1)
        write(broker, "t", [b"a", b"b"])
        assert read(broker, "t") == [b"a", b"b"]
        directory, address = broker.data_dir, broker.bootstrap_servers
        assert os.path.isdir(os.path.join(directory, "t-0"))
        assert broker.is_running
    assert not os.path.exists(directory)
    assert not broker.is_running
    with pytest.raises(BrokerUnavailable):
        reach(broker)
    assert broker.bootstrap_servers == address


@PROCESS
def test_a_restart_keeps_port_and_records(process):
    with Broker(process=process) as broker:
        broker.create_topic("t")
        write(broker, "t", [b"a"])
        address = broker.bootstrap_servers
        broker.restart()
        assert broker.bootstrap_servers == address
        write(broker, "t", [b"b"])
        assert read(broker, "t") == [b"a", b"b"]


@PROCESS
def test_settings_reach_the_broker(process):
    with Broker({"num.partitions": 4, "auto.create.topics.enable": True}, process=process) as broker:
        write(broker, "made-by-writing", [b"x"])
        (topic,) = reach(broker)
        assert (topic.name, topic.partition_count) == ("made-by-writing", 4)


@PROCESS
def test_a_wrong_setting_is_an_error_at_the_start(process):
    broker = Broker({"num.partitions": "many"}, process=process)
    with pytest.raises((BrokerFailed, ValueError), match=r"num\.partitions"):
        broker.start()
    assert not broker.is_running


def test_a_directory_of_ones_own_survives(tmp_path):
    with Broker(data_dir=tmp_path / "data") as broker:
        broker.create_topic("t")
        write(broker, "t", [b"a"])
    with Broker(data_dir=tmp_path / "data") as broker:
        assert read(broker, "t") == [b"a"]


def test_several_brokers_live_in_one_process():
    with Broker() as first, Broker() as second:
        assert first.port != second.port
        first.create_topic("t")
        assert reach(second) == []


def test_no_thread_outlives_a_stopped_broker():
    before = set(threading.enumerate())
    with Broker():
        pass
    assert {thread for thread in threading.enumerate() if thread not in before and thread.is_alive()} == set()


def test_starting_twice_is_a_mistake():
    with Broker() as broker, pytest.raises(RuntimeError, match="runs already"):
        broker.start()


def test_records_survive_kill_dash_nine():
    with Broker(process=True) as broker:
        broker.create_topic("t")
        write(broker, "t", [b"%d" % number for number in range(100)])
        pid = broker.pid
        broker.kill()
        assert not broker.is_running
        with pytest.raises(BrokerUnavailable):
            reach(broker)
        broker.start()
        assert broker.pid != pid
        assert read(broker, "t") == [b"%d" % number for number in range(100)]


def test_a_paused_broker_answers_no_request_until_it_is_resumed():
    with (
        Broker(process=True) as broker,
        Admin(bootstrap_servers=broker.bootstrap_servers, default_api_timeout_ms=200) as admin,
    ):
        broker.pause()
        with pytest.raises(DeadlinePassed):
            admin.list_topics()
        broker.resume()
        assert reach(broker) == []


def test_a_paused_broker_can_be_stopped():
    with Broker(process=True) as broker:
        broker.pause()


def test_logs_of_a_process_are_kept_after_its_end():
    with Broker(process=True) as broker:
        during = broker.logs
    assert broker.logs.startswith(during)
    assert "INFO" in broker.logs


def test_a_port_in_use_is_an_error_with_the_address():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        broker = Broker({"listeners": f"PLAINTEXT://{address}"}, process=True)
        with pytest.raises(BrokerFailed, match=f"exit code 1 (.|\n)*{address}"):
            broker.start()


def test_the_fixture_gives_each_test_a_broker_of_its_own(tmp_path):
    (tmp_path / "test_users.py").write_text(
        """
import pytest
from tidelog.client import Admin, Producer

@pytest.fixture
def tidelog_broker_config():
    return {"num.partitions": 5}

@pytest.mark.parametrize("run", [1, 2])
def test_users(tidelog_broker, run):
    with Admin(bootstrap_servers=tidelog_broker.bootstrap_servers) as admin:
        assert admin.list_topics() == []
    with Producer(bootstrap_servers=tidelog_broker.bootstrap_servers) as producer:
        assert producer.partitions_for("t") == 5
""",
        encoding="utf-8",
    )
    words = ["-p", "tidelog.testing.pytest_plugin", "-p", "no:cacheprovider", "-q", "-W", "error", str(tmp_path)]
    environment = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", *words], capture_output=True, text=True, env=environment, cwd=tmp_path
    )
    assert "2 passed" in ran.stdout, ran.stdout + ran.stderr


def test_records_of_any_age_stay_unless_a_test_asks_for_retention(tmp_path):
    """Half a minute after its start a broker deleted what a test had stamped with a time of last year."""

    def rounds(settings):
        with Inside(tmp_path, settings) as inside:
            return {task.name for task in inside.on_loop(inside.node.scheduler.tasks)}

    assert "log-retention" not in rounds({})
    assert "log-retention" in rounds({"log.retention.check.interval.ms": 1000})
