"""What pipelines do with topics, without Spark: dead letters sent back, and whether anything is left."""

from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.integration.spark.pipeline_support import committed
from tidelog.client import ConfigChange, ConfigResource, Producer, ResourceType
from tidelog.client.cluster import Cluster
from tidelog.client.retry.headers import Origin, Trail, encode
from tidelog.spark.pipeline import Pipeline, RetryLadder, topic
from tidelog.spark.pipeline.failing import replay as replays
from tidelog.spark.pipeline.failing import replay_progress
from tidelog.spark.pipeline.failing.dead_letters import parse_filter
from tidelog.spark.pipeline.failing.own_topics import make_missing, room_for_failed
from tidelog.spark.pipeline.failing.replay import Replay
from tidelog.spark.pipeline.failing.routing import ladder_of
from tidelog.spark.pipeline.running.plan import drained
from tidelog.testing import Broker

LETTERS = [(None, b"\xff\xfe"), (b"\x80", None), (b"k", b""), (b"k", b"text"), (b"k", b"late")]


@pytest.fixture
def servers() -> Iterator[str]:
    with Broker() as broker:
        broker.create_topic("orders", partitions=2)
        broker.create_topic("orders.dlq", partitions=2)
        yield broker.bootstrap_servers


def _bury(servers: str) -> None:
    """Dead letters in two transactions and one that was aborted, so that offsets lie between them."""
    settings = {"bootstrap.servers": servers, "transactional.id": "pipeline"}
    with Producer(settings) as producer:
        producer.init_transactions()
        for part in (LETTERS[:2], LETTERS[2:]):
            with producer.transaction():
                for number, (key, value) in enumerate(part):
                    error = "TimeoutError" if value == b"late" else "ValueError"
                    trail = Trail("clean", 1, error, "no", 1, Origin("orders", 0, number, 5))
                    producer.send("orders.dlq", value, key, headers=[("own", b"1"), *encode(trail)])
        with suppress(ZeroDivisionError), producer.transaction():
            producer.send("orders.dlq", b"aborted", b"k")
            producer.flush()
            raise ZeroDivisionError


def _sent(servers: str) -> Counter[tuple[bytes | None, bytes | None]]:
    return Counter((record.key, record.value) for record in committed(servers, "orders"))


def test_dead_letters_go_back_once_as_they_were_and_every_offset_is_counted(servers: str) -> None:
    _bury(servers)
    asked = Replay(servers, "orders.dlq")
    spans = asked.spans()
    total = sum(end - start for start, end in spans.values())
    for act in (asked.look, asked.send):
        passed: list[int] = []
        assert act(spans, passed.append).sent == {"orders": len(LETTERS)}
        assert sum(passed) == total > len(LETTERS)
    assert _sent(servers) == Counter(LETTERS)
    sent_back = (("own", b"1"), ("tidelog.replayed", b"1"))
    assert all(record.headers == sent_back for record in committed(servers, "orders"))
    assert not asked.spans(), "each once, also over several replays"
    assert Replay(servers, "orders.dlq", from_beginning=True).look(spans, passed.append).total == len(LETTERS)


def test_letters_that_a_filter_leaves_out_stay_for_the_next_replay(servers: str) -> None:
    _bury(servers)
    late = Replay(servers, "orders.dlq", filters=[parse_filter("error.type=TimeoutError")])
    done = late.send(late.spans(), lambda count: None)
    assert (done.sent, done.kept) == ({"orders": 1}, len(LETTERS) - 1)
    rest = Replay(servers, "orders.dlq")
    assert rest.send(rest.spans(), lambda count: None).total == len(LETTERS) - 1
    assert _sent(servers) == Counter(LETTERS)
    assert not rest.spans()


@pytest.mark.parametrize("window", [20_000, 3])
def test_a_replay_does_not_touch_the_letters_that_its_filter_leaves_out(
    servers: str, monkeypatch: pytest.MonkeyPatch, window: int
) -> None:
    monkeypatch.setattr(replay_progress, "WINDOW_OFFSETS", window)
    monkeypatch.setattr(replays, "LETTERS_PER_TRANSACTION", 4)
    letters = [(f"k{number % 5}".encode(), str(number).encode()) for number in range(30)]
    with Producer(bootstrap_servers=servers) as producer:
        for number, (key, value) in enumerate(letters):
            trail = Trail("clean", 1, "ValueError", "no", 1, Origin("orders", 0, number, 5))
            producer.send("orders.dlq", value, key, headers=encode(trail))
        producer.flush()
    there = committed(servers, "orders.dlq")
    for digit in ("3", "0", "3", "7"):
        asked = Replay(servers, "orders.dlq", filters=[parse_filter(f"value~{digit}$")])
        left = asked.look(asked.spans(), lambda count: None)
        done = asked.send(asked.spans(), lambda count: None)
        assert done == left, "a dry run says what is done"
    assert committed(servers, "orders.dlq") == there, "not one letter more"
    assert _sent(servers) == Counter(letter for letter in letters if letter[1][-1:] in (b"3", b"0", b"7"))
    again = Replay(servers, "orders.dlq", filters=[parse_filter("value~3$")], from_beginning=True)
    assert again.send(again.spans(), lambda count: None).total == 3
    rest = Replay(servers, "orders.dlq")
    assert rest.send(rest.spans(), lambda count: None).total == 21
    assert _sent(servers) == Counter(letters) + Counter(letter for letter in letters if letter[1][-1:] == b"3")
    assert committed(servers, "orders.dlq") == there
    assert not rest.spans()


def test_a_replay_that_was_interrupted_is_taken_up_where_it_was(servers: str, monkeypatch: pytest.MonkeyPatch) -> None:
    _bury(servers)
    monkeypatch.setattr(replays, "LETTERS_PER_TRANSACTION", 2)
    asked = Replay(servers, "orders.dlq")

    def interrupt(count: int) -> None:
        raise KeyboardInterrupt

    spans = asked.spans()
    with pytest.raises(KeyboardInterrupt):
        asked.send(spans, interrupt)
    assert _sent(servers).total() == 2
    asked.send(spans, lambda count: None)
    assert _sent(servers) == Counter(LETTERS)


def test_a_pipeline_is_drained_when_no_topic_of_its_own_has_a_row_left(servers: str, tmp_path: Path) -> None:
    pipeline = Pipeline(
        "clean", source=topic("orders"), sink=topic("x"), on_failure=RetryLadder(["1s"]), checkpoint=tmp_path
    )
    assert drained(pipeline, servers, lambda: False)(), "an empty topic leads to no batch, and is done"
    with Producer(bootstrap_servers=servers) as producer:
        producer.send("orders", b"1", partition=0)
        producer.flush()
    assert not drained(pipeline, servers, lambda: True)()
    for directory, text in (("offsets", 'v1\n{}\n{"orders": {"0": 1, "1": 0}}'), ("commits", "v1\n{}")):
        (tmp_path / directory).mkdir()
        (tmp_path / directory / "0").write_text(text)
    assert drained(pipeline, servers, lambda: False)()


def test_a_pipeline_that_starts_at_a_time_is_drained_when_it_finds_nothing(servers: str, tmp_path: Path) -> None:
    late = Pipeline("late", source=topic("orders", startingTimestamp=1), sink=topic("x"), checkpoint=tmp_path)
    assert not drained(late, servers, lambda: False)()
    assert drained(late, servers, lambda: True)()


def test_own_topics_have_room_for_headers_and_keep_what_the_policy_says(servers: str) -> None:
    policy = RetryLadder(["1s"], retention="7d", keep_order_by_key=True)
    ladder = ladder_of(Pipeline("clean", source=topic("orders"), sink=topic("x"), on_failure=policy))
    assert ladder is not None
    with Cluster(bootstrap_servers=servers) as cluster:
        cluster.incremental_alter_configs({_topic("orders"): [ConfigChange("max.message.bytes", "5000000")]})
        record_bytes = room_for_failed(cluster, ("orders",))
        assert make_missing(cluster, ladder, 3, record_bytes) == [
            "orders.retry.1",
            "orders.retry.parked",
            "orders.retry.keys",
        ]
        topics = [_topic(name) for name in ("orders.retry.1", "orders.retry.parked")]
        found = cluster.describe_configs(topics, names=["retention.ms", "max.message.bytes"])
    kept = {each.name: {name: entry.value for name, entry in found[each].items()} for each in topics}
    assert record_bytes > 5_000_000 + 10_000
    assert kept == {
        "orders.retry.1": {"retention.ms": str(7 * 86_400_000), "max.message.bytes": str(record_bytes)},
        "orders.retry.parked": {"retention.ms": "-1", "max.message.bytes": str(record_bytes)},
    }


def _topic(name: str) -> ConfigResource:
    return ConfigResource(ResourceType.TOPIC, name)
