"""A broker's configuration is loaded whole and consistent, or not at all."""

import pytest

from tidelog.config import BrokerConfig, ConfigError, Listener, load_broker_config, settings_without_effect
from tidelog.config.errors import UnknownSettingError


def test_nothing_set_is_the_defaults_of_a_broker_alone() -> None:
    assert load_broker_config({}) == BrokerConfig(group_initial_rebalance_delay_ms=0)


@pytest.mark.parametrize("shared", [{"zookeeper.connect": "localhost:2181"}, {"metadata.socket": "/run/tree"}])
def test_members_of_a_cluster_have_kafkas_defaults(shared: dict[str, str]) -> None:
    assert load_broker_config(shared).group_initial_rebalance_delay_ms == 3000


def test_what_is_set_holds_for_a_broker_alone_too() -> None:
    assert load_broker_config({"group.initial.rebalance.delay.ms": "3000"}).group_initial_rebalance_delay_ms == 3000


def test_what_is_set_is_typed_and_remembered() -> None:
    properties = {"num.partitions": "3", "log.cleanup.policy": "compact,delete"}
    config = load_broker_config(properties)
    assert config.num_partitions == 3
    assert config.log_cleanup_policy == ("compact", "delete")
    assert config.originals == properties


def test_log_dir_is_used_when_log_dirs_is_not_set() -> None:
    assert load_broker_config({"log.dir": "/a"}).log_dirs == ("/a",)
    assert load_broker_config({"log.dir": "/a", "log.dirs": "/b,/c"}).log_dirs == ("/b", "/c")


def test_an_unknown_setting_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(UnknownSettingError) as refused:
        load_broker_config({"num.partition": "3", "zzz": "1"})
    assert str(refused.value) == "Unknown settings: num.partition (did you mean num.partitions?), zzz"
    assert load_broker_config({"num.partition": "3"}, ignore_unknown=True).num_partitions == 1


@pytest.mark.parametrize(
    "name",
    [
        "remote.log.reader.threads",
        "group.consumer.assignors",
        "metadata.log.segment.ms",
        "controller.quorum.election.timeout.ms",
        "zookeeper.clientCnxnSocket",
    ],
)
def test_a_setting_of_kafka_without_a_meaning_here_is_accepted_and_known_to_be_so(name: str) -> None:
    load_broker_config({name: "1"})
    assert settings_without_effect({name: "1", "num.partitions": "4"}) == [name]


def test_a_dynamic_setting_of_an_unknown_name_has_no_effect_and_is_named_with_what_it_may_stand_for() -> None:
    given = {"mesage.max.bytes": "1", "zzz": "1", "num.partitions": "4"}
    assert settings_without_effect(given) == ["mesage.max.bytes (did you mean message.max.bytes?)", "zzz"]


@pytest.mark.parametrize(
    ("name", "instead"),
    [("node.id", "broker.id"), ("controller.quorum.voters", "leave it out"), ("metadata.log.dir", "first of log.dirs")],
)
def test_a_setting_that_makes_a_kraft_cluster_is_refused_with_advice(name: str, instead: str) -> None:
    with pytest.raises(ConfigError, match="ZooKeeper mode") as refused:
        load_broker_config({name: "1"}, ignore_unknown=True)
    assert name in str(refused.value)
    assert instead in str(refused.value)


KRAFT = {
    "process.roles": "broker",
    "node.id": "7",
    "controller.quorum.bootstrap.servers": "c1:9093,[::1]:9093",
    "controller.listener.names": "controller",
}


def test_a_member_of_a_kraft_cluster_has_its_node_id_and_knows_the_controllers() -> None:
    config = load_broker_config(KRAFT)
    assert (config.broker_id, config.node_id, config.is_alone) == (7, 7, False)
    assert config.parsed_bootstrap_controllers == (("c1", 9093), ("::1", 9093))
    assert config.controller_listener_name == "CONTROLLER"
    voters = {**KRAFT, "controller.quorum.voters": "1@a:1,2@b:2"}
    assert load_broker_config(voters).parsed_voters == {1: ("a", 1), 2: ("b", 2)}
    assert load_broker_config(voters).parsed_bootstrap_controllers == (("a", 1), ("b", 2))
    assert load_broker_config({**KRAFT, "node.id": "5000"}).broker_id == 5000


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"node.id": "-1"}, ["process.roles=broker", "node.id"]),
        ({"broker.id": "8"}, ["node.id=7", "broker.id=8"]),
        ({"controller.quorum.bootstrap.servers": ""}, ["controller.quorum.bootstrap.servers"]),
        ({"controller.quorum.bootstrap.servers": "c1"}, ["controller.quorum.bootstrap.servers", "c1"]),
        ({"controller.quorum.voters": "c1:9093"}, ["controller.quorum.voters", "id@host:port"]),
        ({"controller.quorum.voters": "1@a:1,1@b:2"}, ["controller.quorum.voters", "controller 1"]),
        ({"controller.listener.names": ""}, ["controller.listener.names"]),
        ({"controller.listener.names": "PLAINTEXT"}, ["controller.listener.names", "PLAINTEXT"]),
        ({"listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:SSL"}, ["CONTROLLER", "SSL"]),
        ({"process.roles": "broker,controller"}, ["process.roles", "Apache Kafka's"]),
        ({"process.roles": "observer"}, ["process.roles"]),
        ({"zookeeper.connect": "z:2181"}, ["process.roles=broker", "zookeeper.connect"]),
        ({"metadata.socket": "/s"}, ["process.roles=broker", "metadata.socket"]),
        ({"tidelog.cores": "2"}, ["tidelog.cores=2"]),
    ],
)
def test_a_member_of_a_kraft_cluster_needs_settings_that_agree(change: dict[str, str], named: list[str]) -> None:
    with pytest.raises(ConfigError) as refused:
        load_broker_config({**KRAFT, **change})
    for each in named:
        assert each in str(refused.value)


TWO_LISTENERS = {"listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,LAN:PLAINTEXT"}

# Each of these is refused by Kafka 3.9, too, except where the comment says so.
CONTRADICTIONS = [
    ({"broker.id": "1001"}, ["broker.id=1001", "reserved.broker.max.id=1000"]),
    ({"broker.id": "-1", "broker.id.generation.enable": "false"}, ["broker.id=-1", "broker.id.generation.enable"]),
    ({"log.roll.ms": "0"}, ["log.roll.ms=0"]),
    ({"log.roll.jitter.ms": "-1"}, ["log.roll.jitter.ms=-1"]),
    ({"log.retention.ms": "0"}, ["log.retention.ms=0"]),
    ({"log.retention.hours": "0"}, ["log.retention.hours=0"]),
    ({"log.dirs": ""}, ["log.dirs"]),
    ({"log.dirs": "/a,/b,/a"}, ["log.dirs", "/a"]),  # Kafka refuses when it opens them
    ({"log.cleaner.threads": "200"}, ["log.cleaner.threads=200", "log.cleaner.dedupe.buffer.size=134217728"]),
    ({"replica.fetch.wait.max.ms": "40000"}, ["replica.fetch.wait.max.ms=40000", "replica.socket.timeout.ms=30000"]),
    (
        {"replica.fetch.wait.max.ms": "40000", "replica.socket.timeout.ms": "50000"},
        ["replica.fetch.wait.max.ms=40000", "replica.lag.time.max.ms=30000"],
    ),
    ({"offsets.commit.required.acks": "4"}, ["acks=4", "offsets.topic.replication.factor=3"]),
    ({"queued.max.request.bytes": "1000"}, ["queued.max.request.bytes=1000", "socket.request.max.bytes=104857600"]),
    ({"max.connections.per.ip": "0"}, ["max.connections.per.ip=0", "max.connections.per.ip.overrides"]),
    ({"max.connections.per.ip.overrides": "127.0.0.1"}, ["max.connections.per.ip.overrides", "'127.0.0.1'"]),
    ({"max.connections.per.ip.overrides": "example.org:3"}, ["max.connections.per.ip.overrides", "'example.org'"]),
    ({"max.connections.per.ip.overrides": "127.0.0.1:x"}, ["max.connections.per.ip.overrides", "'127.0.0.1:x'"]),
    ({"connections.max.idle.ms": "100"}, ["delay.ms=100", "connections.max.idle.ms=100"]),
    ({"listeners": ""}, ["listeners"]),
    ({"listeners": "PLAINTEXT://:1,PLAINTEXT://:2"}, ["listeners", "PLAINTEXT is named twice"]),
    (TWO_LISTENERS | {"listeners": "PLAINTEXT://:1,LAN://:1"}, ["listeners", "same port"]),
    (TWO_LISTENERS | {"listeners": "PLAINTEXT://127.0.0.1:1,LAN://127.0.0.2:1"}, ["listeners", "same port"]),
    ({"listeners": "PLAINTEXT://h"}, ["listeners", "NAME://host:port"]),
    ({"listeners": "PLAINTEXT://h:65536"}, ["listeners", "'65536'"]),  # Kafka refuses when it listens
    ({"listeners": "PLAINTEXT://h x:1"}, ["listeners", "'h x'"]),
    ({"listeners": "PLAINTEXT://h:9092:9093"}, ["listeners", "'h:9092'"]),  # Kafka refuses when it listens
    ({"listeners": "FOO://h:1"}, ["listener FOO", "listener.security.protocol.map"]),
    ({"listener.security.protocol.map": "FOO:PLAIN"}, ["listener.security.protocol.map", "FOO", "'PLAIN'"]),
    ({"listener.security.protocol.map": "FOO"}, ["listener.security.protocol.map", "'FOO'"]),
    ({"listener.security.protocol.map": "A:SSL,A:SSL"}, ["listener.security.protocol.map", "A is named twice"]),
    ({"listeners": "PLAINTEXT://0.0.0.0:1"}, ["PLAINTEXT://0.0.0.0:1", "advertised.listeners"]),
    ({"advertised.listeners": "PLAINTEXT://0.0.0.0:1"}, ["PLAINTEXT://0.0.0.0:1", "advertised.listeners"]),
    ({"advertised.listeners": "SSL://h:1"}, ["advertised.listeners", "SSL://h:1"]),
    ({"advertised.listeners": ""}, ["advertised.listeners"]),
    ({"inter.broker.listener.name": "SSL"}, ["inter.broker.listener.name", "SSL"]),
    (
        {"inter.broker.listener.name": "PLAINTEXT", "security.inter.broker.protocol": "PLAINTEXT"},
        ["inter.broker.listener.name", "security.inter.broker.protocol"],
    ),
    ({"control.plane.listener.name": "CONTROL"}, ["control.plane.listener.name", "CONTROL", "PLAINTEXT"]),
    ({"control.plane.listener.name": "PLAINTEXT"}, ["control.plane.listener.name=PLAINTEXT", "must differ"]),
    ({"remote.log.storage.system.enable": "true"}, ["remote.log.storage.system.enable"]),  # Kafka has it
    ({"listener.name.ssl.ssl.client.auth": "maybe"}, ["listener.name.ssl.ssl.client.auth", "maybe"]),
    # Kafka ignores what is not in lower case: the next listener would ask for no certificate, and its sessions not end.
    (
        {"listener.name.PLAINTEXT.ssl.client.auth": "required"},
        ["listener.name.PLAINTEXT.ssl.client.auth", "listener.name.plaintext.ssl.client.auth"],
    ),
    (
        {"listener.name.plaintext.SCRAM-SHA-256.connections.max.reauth.ms": "1000"},
        ["listener.name.plaintext.scram-sha-256.connections.max.reauth.ms"],
    ),
]


@pytest.mark.parametrize(("properties", "named"), CONTRADICTIONS)
def test_a_contradiction_is_refused_and_names_settings_and_values(properties: dict[str, str], named: list[str]) -> None:
    with pytest.raises(ConfigError) as refused:
        load_broker_config(properties)
    for words in named:
        assert words in str(refused.value)


@pytest.mark.parametrize(
    "properties",
    [
        {"log.retention.minutes": "-5"},
        {"queued.max.request.bytes": "0"},
        {"max.connections.per.ip": "0", "max.connections.per.ip.overrides": "127.0.0.1:5,[::1]:3"},
        {"connections.max.idle.ms": "-1"},
        TWO_LISTENERS | {"listeners": "PLAINTEXT://:0,LAN://:0"},
        TWO_LISTENERS | {"listeners": "PLAINTEXT://127.0.0.1:9092,LAN://[::1]:9092"},
        {"listeners": "PLAINTEXT://h:1,"},
        {"listeners": "PLAINTEXT://0.0.0.0:1", "advertised.listeners": "PLAINTEXT://h:2"},
        {"listener.name.sasl_ssl.scram-sha-256.sasl.jaas.config": "x"},
        {"log.cleaner.threads": "0"},
    ],
)
def test_what_kafka_accepts_is_accepted(properties: dict[str, str]) -> None:
    load_broker_config(properties)


def test_listeners_are_parsed() -> None:
    config = load_broker_config(
        {
            "listeners": "plaintext://:0, EXTERNAL://[::1]:9093,LAN://broker-1.example.org:9094",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,EXTERNAL:PLAINTEXT,LAN:PLAINTEXT,OTHER:SSL",
            "advertised.listeners": "PLAINTEXT://localhost:9092",
        }
    )
    assert config.parsed_listeners == (
        Listener("PLAINTEXT", "", 0, "PLAINTEXT"),
        Listener("EXTERNAL", "::1", 9093, "PLAINTEXT"),
        Listener("LAN", "broker-1.example.org", 9094, "PLAINTEXT"),
    )
    assert config.parsed_advertised_listeners == (Listener("PLAINTEXT", "localhost", 9092, "PLAINTEXT"),)
    assert str(config.parsed_listeners[1]) == "EXTERNAL://[::1]:9093"


def test_listeners_are_advertised_when_nothing_else_is() -> None:
    config = load_broker_config({"listeners": "PLAINTEXT://localhost:1"})
    assert config.parsed_advertised_listeners == config.parsed_listeners


def test_the_inter_broker_listener_has_a_name() -> None:
    assert load_broker_config({}).inter_broker_name == "PLAINTEXT"
    named = {
        "listeners": "INSIDE://:1",
        "listener.security.protocol.map": "INSIDE:PLAINTEXT",
        "inter.broker.listener.name": "inside",
    }
    assert load_broker_config(named).inter_broker_name == "INSIDE"


def test_the_listener_of_the_controller_is_the_one_between_brokers_unless_it_has_a_name() -> None:
    assert load_broker_config({}).control_plane_name == "PLAINTEXT"
    named = {
        "listeners": "PLAINTEXT://:1,CONTROL://:2",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROL:PLAINTEXT",
        "control.plane.listener.name": "control",
    }
    assert load_broker_config(named).control_plane_name == "CONTROL"


def test_a_listener_has_settings_of_its_own() -> None:
    config = load_broker_config({"ssl.client.auth": "none", "listener.name.external.ssl.client.auth": "required"})
    assert config.for_listener("EXTERNAL").ssl_client_auth == "required"
    assert config.for_listener("PLAINTEXT") is config


def test_overrides_of_connections_per_address() -> None:
    config = load_broker_config({"max.connections.per.ip.overrides": "127.0.0.1:5, [::1]:3,10.0.0.1:0"})
    assert config.connections_per_ip_overrides == {"127.0.0.1": 5, "::1": 3, "10.0.0.1": 0}
