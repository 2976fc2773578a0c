"""What each core gets of its machine's settings."""

import pytest

from tidelog.cluster.cores.layout import check_cores, core_count, settings_of
from tidelog.config import ConfigError, load_broker_config

MACHINE = {
    "broker.id": "7",
    "listeners": "PLAINTEXT://:9092,INSIDE://10.0.0.1:9093",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,INSIDE:PLAINTEXT",
    "inter.broker.listener.name": "INSIDE",
    "advertised.listeners": "PLAINTEXT://a.example.com:19092,INSIDE://10.0.0.1:9093",
    "metrics.listeners": "http://127.0.0.1:9404",
    "log.dirs": "/one,/two",
    "num.partitions": "2",
    "tidelog.cores": "4",
}


def machine(**others):
    return load_broker_config({**MACHINE, **{name.replace("_", "."): text for name, text in others.items()}})


def test_each_core_has_ports_directories_and_an_id_of_its_own():
    first, third = (load_broker_config(settings_of(machine(), core, 4, "/m.sock")) for core in (1, 3))
    assert (first.broker_id, third.broker_id) == (7, -1)
    assert (first.log_dirs, third.log_dirs) == (("/one", "/two"), ("/one/.cores/3", "/two/.cores/3"))
    assert [str(each) for each in third.parsed_listeners] == ["PLAINTEXT://:9392", "INSIDE://10.0.0.1:9393"]
    assert [each.port for each in third.parsed_advertised_listeners] == [19392, 9393]
    assert third.metrics_listeners == "http://127.0.0.1:9704"
    assert third.tidelog_cores == first.tidelog_cores == "1"


def test_the_machine_is_the_rack_unless_one_is_named():
    assert settings_of(machine(), 2, 4, None)["broker.rack"] == "a.example.com"
    assert settings_of(machine(broker_rack="r1"), 2, 4, None)["broker.rack"] == "r1"


def test_topics_without_a_count_get_a_partition_for_each_core():
    assert settings_of(machine(), 2, 4, None)["num.partitions"] == "4"
    assert settings_of(machine(num_partitions="9"), 2, 4, None)["num.partitions"] == "9"


def test_a_machine_that_is_alone_keeps_its_internal_topics_once_and_in_a_cluster_as_it_is_set():
    alone, member = settings_of(machine(), 2, 4, "/m.sock"), settings_of(machine(), 2, 4, None)
    assert alone["offsets.topic.replication.factor"] == "1"
    assert "offsets.topic.replication.factor" not in member
    assert (alone["metadata.socket"], "metadata.socket" in member) == ("/m.sock", False)


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        ({"listeners": "PLAINTEXT://:65400,INSIDE://10.0.0.1:9093"}, "port 65600: lower tidelog.cores.port.step"),
        ({"tidelog.cores.port.step": "1"}, "would both be port 9093: change tidelog.cores.port.step"),
        ({"broker.id.generation.enable": "false"}, "broker.id.generation.enable=true"),
        ({"metadata.socket": "/m.sock"}, "metadata.socket"),
    ],
)
def test_what_leaves_no_room_for_the_cores_is_named(settings, complaint):
    with pytest.raises(ConfigError, match=complaint):
        check_cores(machine(**settings), 4)


@pytest.mark.parametrize("text", ["0", "-1", "257", "four", "", "1.5"])
def test_a_number_of_cores_that_is_none_is_refused(text):
    with pytest.raises(ConfigError, match=r"tidelog\.cores"):
        machine(tidelog_cores=text)


def test_auto_is_what_the_process_may_run_on():
    assert core_count(machine()) == 4
    assert core_count(machine(tidelog_cores="auto")) >= 1
