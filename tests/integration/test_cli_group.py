"""`tidelog group`, `tidelog consume --group` and the view of __consumer_offsets, as a user runs them."""

import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import confluent_kafka
import pytest

from tests.integration.cli_support import Ran, run
from tests.integration.client_support import QUICK
from tests.integration.consumer_support import PATIENCE_S, Cluster, at
from tidelog.cli.app import main
from tidelog.client import Admin, Consumer, OffsetAndMetadata
from tidelog.testing import Broker


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Broker() as broker:
        yield Cluster(broker.bootstrap_servers)


Tidelog = Callable[..., Ran]


@pytest.fixture
def tidelog(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Tidelog:
    """Run a command in this process: what it does is the same, and it starts at once."""

    def tidelog(cluster: Cluster, *words: str) -> Ran:
        monkeypatch.setenv("TIDELOG_BOOTSTRAP_SERVERS", cluster.bootstrap_servers)
        monkeypatch.setenv("COLUMNS", "200")
        capfd.readouterr()
        code = main(words)
        return Ran(code, *capfd.readouterr())

    return tidelog


def commit(cluster: Cluster, group: str, topic: str, *offsets: int, metadata: str = "") -> None:
    with Consumer(**cluster.settings(group_id=group)) as consumer:
        consumer.assign([at(topic, partition) for partition in range(len(offsets))])
        consumer.commit(
            {at(topic, partition): OffsetAndMetadata(offset, metadata) for partition, offset in enumerate(offsets)}
        )
        consumer.unsubscribe()


def committed(cluster: Cluster, group: str, topic: str, partitions: int = 2) -> list[int | None]:
    with Consumer(**cluster.settings(group_id=group, enable_auto_commit=False)) as consumer:
        found = consumer.committed(*(at(topic, partition) for partition in range(partitions)))
        return [found[at(topic, each)].offset if at(topic, each) in found else None for each in range(partitions)]


@pytest.fixture
def topic(cluster: Cluster) -> str:
    """Two partitions with 100 records each, a record a second."""
    name = cluster.topic(2)
    for partition in range(2):
        for second in range(0, 100, 10):
            values = range(second, second + 10)
            cluster.write(name, values, partition=partition, timestamp_ms=1_700_000_000_000 + second * 1000)
    return name


class TestShowing:
    def test_groups_are_listed_with_their_states(self, cluster: Cluster, tidelog: Tidelog, topic: str) -> None:
        group = cluster.group()
        commit(cluster, group, topic, 1, 1)
        assert group in tidelog(cluster, "group", "list").out.splitlines()
        listed = [
            each for each in tidelog(cluster, "group", "list", "--format", "json").document if each["group"] == group
        ]
        assert listed == [{"group": group, "state": "Empty", "type": "classic", "protocol_type": ""}]
        assert group in tidelog(cluster, "group", "list", "--state", "empty").out
        assert group not in tidelog(cluster, "group", "list", "--state", "stable").out

    def test_the_lag_of_every_partition_is_shown(self, cluster: Cluster, tidelog: Tidelog, topic: str) -> None:
        group = cluster.group()
        commit(cluster, group, topic, 40, 100)
        ran = tidelog(cluster, "group", "describe", group)
        assert ran.code == 0, ran
        assert f"Consumer group '{group}' has no active members." in ran.out
        headings, *rows = [line.split() for line in ran.out.splitlines()[1:]]
        assert headings[:6] == ["GROUP", "TOPIC", "PARTITION", "CURRENT-OFFSET", "LOG-END-OFFSET", "LAG"]
        assert [row[:6] for row in rows] == [
            [group, topic, "0", "40", "100", "60"],
            [group, topic, "1", "100", "100", "0"],
        ]

    def test_members_and_state_are_shown_while_a_consumer_reads(
        self, cluster: Cluster, tidelog: Tidelog, topic: str
    ) -> None:
        group = cluster.group()
        with Consumer(**cluster.settings(group_id=group, client_id="reader")) as consumer:
            consumer.subscribe([topic])
            while not consumer.poll(0.5):
                pass
            consumer.commit()
            (state,) = tidelog(cluster, "group", "describe", group, "--state", "--format", "json").document
            assert (state["state"], state["assignor"], state["members"]) == ("Stable", "range", 1)
            (member,) = tidelog(cluster, "group", "describe", group, "--members", "--format", "json").document
            assert member["client_id"] == "reader"
            assert len(member["assignment"]) == 2
            assert f"{topic}(0,1)" in tidelog(cluster, "group", "describe", group, "--members").out
            assert "reader" in tidelog(cluster, "group", "describe", group).out
            refused = tidelog(cluster, "group", "delete", group)
            assert (refused.code, "NON_EMPTY_GROUP" in refused.err) == (1, True)
            refused = tidelog(cluster, "group", "reset", group, "--all-topics", "--to-earliest", "--execute")
            assert (refused.code, "has no members" in refused.err) == (1, True)

    def test_a_group_of_the_newer_protocol_is_described_like_others(
        self, cluster: Cluster, tidelog: Tidelog, topic: str
    ) -> None:
        group = cluster.group()
        settings = {**QUICK, "bootstrap.servers": cluster.bootstrap_servers, "group.id": group}
        reader = confluent_kafka.Consumer({**settings, "group.protocol": "consumer", "auto.offset.reset": "earliest"})
        try:
            reader.subscribe([topic])
            deadline = time.monotonic() + PATIENCE_S
            while not reader.assignment():
                assert time.monotonic() < deadline, "the group has not assigned anything"
                reader.poll(0.05)
            (state,) = tidelog(cluster, "group", "describe", group, "--state", "--format", "json").document
            assert state["state"] in ("Assigning", "Reconciling", "Stable")
            assert state["members"] == 1
            (member,) = tidelog(cluster, "group", "describe", group, "--members", "--format", "json").document
            assert {each["topic"] for each in member["assignment"]} == {topic}
            refused = tidelog(cluster, "group", "reset", group, "--topic", topic, "--to-earliest", "--execute")
            assert "offsets can be reset only while it has no members" in refused.err
        finally:
            reader.close()

    def test_states_and_types_that_do_not_exist_are_refused(self, cluster: Cluster, tidelog: Tidelog) -> None:
        assert tidelog(cluster, "group", "list", "--state", "preparingREBALANCE").code == 0
        assert "'busy' must be one of Empty, Prep" in tidelog(cluster, "group", "list", "--state", "busy").err
        assert "'new' must be one of Classic, Cons" in tidelog(cluster, "group", "list", "--type", "new").err

    def test_the_lag_can_be_watched(self, cluster: Cluster, tidelog: Tidelog, topic: str) -> None:
        group = cluster.group()
        commit(cluster, group, topic, 40)
        ran = tidelog(cluster, "group", "describe", group, "--watch", "--every", "0.1", "--times", "2")
        assert ran.out.count("READ/S") == 2
        looks = tidelog(
            cluster, "group", "describe", group, "--watch", "--every", "0.1", "--times", "2", "--format", "json"
        )
        assert [(look["lag"], look["read_per_s"]) for look in looks.lines] == [(60, None), (60, 0)]

    def test_a_group_that_is_not_there_is_an_error(self, cluster: Cluster, tidelog: Tidelog) -> None:
        ran = tidelog(cluster, "group", "describe", "unknown")
        assert ran.code == 1
        assert "group 'unknown' does not exist" in ran.err

    def test_groups_can_be_deleted_whole_or_in_part(self, cluster: Cluster, tidelog: Tidelog, topic: str) -> None:
        group, other = cluster.group(), cluster.topic(1)
        commit(cluster, group, topic, 5, 6)
        commit(cluster, group, other, 7)
        assert tidelog(cluster, "group", "delete", group, "--topic", other).code == 0
        assert committed(cluster, group, other, 1) == [None]
        assert committed(cluster, group, topic) == [5, 6]
        assert tidelog(cluster, "group", "delete", group, "no-such").out == f"Deleted group {group}.\n"
        assert committed(cluster, group, topic) == [None, None]


class TestResetting:
    @pytest.mark.parametrize(
        ("words", "expected"),
        [
            (["--to-earliest"], [0, 0]),
            (["--to-latest"], [100, 100]),
            (["--to-current"], [40, 60]),
            (["--to-offset", "7"], [7, 7]),
            (["--to-offset", "5000"], [100, 100]),
            (["--shift-by", "-50"], [0, 10]),
            (["--shift-by", "10"], [50, 70]),
            (["--to-datetime", "2023-11-14T22:13:30Z"], [10, 10]),
            (["--by-duration", "PT1S"], [100, 100]),
        ],
        ids=lambda each: " ".join(map(str, each)),
    )
    def test_every_way_to_say_where(
        self, cluster: Cluster, tidelog: Tidelog, topic: str, words: list[str], expected: list[int]
    ) -> None:
        group = cluster.group()
        commit(cluster, group, topic, 40, 60)
        dry = tidelog(cluster, "group", "reset", group, "--topic", topic, *words)
        assert "Nothing was changed" in dry.out, dry
        assert committed(cluster, group, topic) == [40, 60]
        done = tidelog(cluster, "group", "reset", group, "--topic", topic, *words, "--execute", "--format", "json")
        assert [each["to"] for each in done.document["offsets"]] == expected
        assert [each["from"] for each in done.document["offsets"]] == [40, 60]
        assert committed(cluster, group, topic) == expected

    def test_a_plan_can_be_written_down_and_carried_out_later(
        self, cluster: Cluster, tidelog: Tidelog, topic: str, tmp_path: Path
    ) -> None:
        group = cluster.group()
        commit(cluster, group, topic, 40, 60)
        plan = tidelog(cluster, "group", "reset", group, "--all-topics", "--shift-by", "-1", "--export")
        assert plan.out == f"{topic},0,39\n{topic},1,59\n"
        path = tmp_path / "plan.csv"
        path.write_text(plan.out)
        assert tidelog(cluster, "group", "reset", group, "--from-file", str(path), "--execute").code == 0
        assert committed(cluster, group, topic) == [39, 59]

    def test_single_partitions_can_be_named(self, cluster: Cluster, tidelog: Tidelog, topic: str) -> None:
        group = cluster.group()
        commit(cluster, group, topic, 40, 60)
        assert (
            tidelog(cluster, "group", "reset", group, "--topic", f"{topic}:1", "--to-earliest", "--execute").code == 0
        )
        assert committed(cluster, group, topic) == [40, 0]

    @pytest.mark.parametrize(
        ("words", "said"),
        [
            ([], "exactly one of"),
            (["--to-earliest", "--to-latest", "--all-topics"], "exactly one of"),
            (["--to-earliest"], "--all-topics"),
            (["--topic", "TOPIC:9", "--to-earliest"], "has no partition 9"),
            (["--topic", "TOPIC:x", "--to-earliest"], "TOPIC:N,N"),
            (["--topic", "TOPIC", "--by-duration", "1h"], "is not a duration"),
            (["--topic", "TOPIC", "--to-datetime", "noon"], "ISO 8601"),
            (["--topic", "TOPIC", "--shift-by", "1"], "there are none for"),
        ],
    )
    def test_mistakes_are_reported(
        self, cluster: Cluster, tidelog: Tidelog, topic: str, words: list[str], said: str
    ) -> None:
        named = [word.replace("TOPIC", topic) for word in words]
        ran = tidelog(cluster, "group", "reset", cluster.group(), *named)
        assert ran.code == 1
        assert said in ran.err, ran


class TestConsuming:
    def test_a_group_goes_on_where_it_stopped(self, cluster: Cluster, tidelog: Tidelog, topic: str) -> None:
        group = cluster.group()
        words = ("consume", topic, "--group", group, "--from-beginning", "--format", "json", "--timeout", "5")
        first = tidelog(cluster, *words, "--max-messages", "30").lines
        second = tidelog(cluster, *words, "--max-messages", "170").lines
        places = [(each["partition"], each["offset"]) for each in first + second]
        assert len(first) == 30
        assert sorted(places) == [(partition, offset) for partition in range(2) for offset in range(100)]
        assert committed(cluster, group, topic) == [100, 100]

    def test_a_topic_that_is_not_there_is_waited_for_and_reported(self, cluster: Cluster, tidelog: Tidelog) -> None:
        ran = tidelog(cluster, "consume", cluster.group(), "--group", "g", "--timeout", "0.1")
        assert (ran.code, ran.out) == (0, "")
        assert "yet; waiting for it" in ran.err

    def test_partitions_and_offsets_are_the_groups_business(
        self, cluster: Cluster, tidelog: Tidelog, topic: str
    ) -> None:
        ran = tidelog(cluster, "consume", topic, "--group", "g", "--partition", "0")
        assert ran.code == 1
        assert "cannot be used with --group" in ran.err

    def test_committed_offsets_are_shown_as_kafka_shows_them(
        self, cluster: Cluster, tidelog: Tidelog, topic: str
    ) -> None:
        group = cluster.group()
        commit(cluster, group, topic, 20, 30)
        commit(cluster, group, topic, 25, metadata="half")
        assert tidelog(cluster, "group", "delete", group).code == 0
        words = ("consume", "__consumer_offsets", "--from-beginning", "--until-end", "--formatter")
        lines = [line for line in tidelog(cluster, *words, "offsets").out.splitlines() if line.startswith(f"[{group},")]
        shapes = [re.sub(r"CommitTime \d{13}", "CommitTime T", line) for line in lines]
        assert shapes[:3] == [
            f"[{group},{topic},0]::[OffsetMetadata[20,NO_METADATA],CommitTime T,ExpirationTime NONE]",
            f"[{group},{topic},1]::[OffsetMetadata[30,NO_METADATA],CommitTime T,ExpirationTime NONE]",
            f"[{group},{topic},0]::[OffsetMetadata[25,half],CommitTime T,ExpirationTime NONE]",
        ]
        assert set(shapes[3:]) == {f"[{group},{topic},0]::NULL", f"[{group},{topic},1]::NULL"}
        listed = [
            each for each in tidelog(cluster, *words, "offsets", "--format", "json").lines if each["group"] == group
        ]
        assert listed[2]["value"]["offset"] == 25

    def test_groups_are_shown_too(self, cluster: Cluster, tidelog: Tidelog, topic: str) -> None:
        group = cluster.group()
        with Consumer(**cluster.settings(group_id=group)) as consumer:
            consumer.subscribe([topic])
            while not consumer.poll(0.5):
                pass
        words = ("consume", "__consumer_offsets", "--from-beginning", "--until-end", "--formatter", "groups")
        assert f"{group}::[GroupMetadata[generation 1,consumer,range,leader " in tidelog(cluster, *words).out
        listed = [each for each in tidelog(cluster, *words, "--format", "json").lines if each["group"] == group]
        assert [len(each["value"]["members"]) for each in listed] == [1, 0]


def test_a_member_that_is_terminated_leaves_its_group(cluster: Cluster, topic: str) -> None:
    group = cluster.group()
    words = ["consume", topic, "--group", group, "--from-beginning", "--bootstrap-server", cluster.bootstrap_servers]
    with subprocess.Popen([sys.executable, "-m", "tidelog", *words], stdout=subprocess.PIPE) as member:
        assert member.stdout is not None
        assert member.stdout.readline()
        member.terminate()
        assert member.wait(PATIENCE_S) == 128 + signal.SIGTERM
    with Admin(bootstrap_servers=cluster.bootstrap_servers) as admin:
        assert admin.describe_groups([group])[group].state == "Empty"


def test_a_cluster_that_is_not_there_is_reported_at_once(tidelog: Tidelog) -> None:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        away = Cluster(f"127.0.0.1:{bound.getsockname()[1]}")
        for words in (["group", "list"], ["consume", "t", "--group", "g"]):
            ran = tidelog(away, *words)
            assert (ran.code, "or --bootstrap-server" in ran.err) == (1, True), ran


def test_it_all_works_as_a_command_too(cluster: Cluster, topic: str) -> None:
    group = cluster.group()
    commit(cluster, group, topic, 3)
    assert group in run("group", "list", server=cluster.bootstrap_servers).out
    assert "--to-datetime" in run("group", "reset", "--help").out
