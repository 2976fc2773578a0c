"""The shipped examples on a broker: exact results, over restarts from their checkpoints."""

import json
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tidelog.client.consumer import Consumer
from tidelog.client.producer import Producer
from tidelog.client.types import TopicPartition
from tidelog.examples import account_balances, customer_changes, data, enrich_orders, tide_windows
from tidelog.examples.compacted import as_table
from tidelog.examples.topics import make_topics, send_events
from tidelog.spark.pipeline import Pipeline, RetryLadder, topic
from tidelog.spark.pipeline.definition.endpoints import Topic
from tidelog.spark.pipeline.definition.loading import load_module
from tidelog.spark.pipeline.lake import delta as delta_module
from tidelog.spark.pipeline.running.run import start
from tidelog.spark.source.progress import ProgressListener
from tidelog.testing import Broker

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    """Commits are looked at as soon as they are done, and segments are small enough to have several."""
    with Broker({"log.segment.bytes": 20_000}, process=True) as running:
        yield running


@pytest.fixture
def servers(broker: Broker) -> str:
    return broker.bootstrap_servers


def run_once(pipeline: Pipeline, spark: SparkSession, servers: str) -> None:
    """What is there now; a second call goes on from the checkpoint of the first."""
    start(pipeline, spark, servers=servers, once=True).wait(Event())


def committed(servers: str, topic: str) -> list[tuple[bytes | None, Any]]:
    """Keys and parsed values that a read-committed consumer gets, partition by partition."""
    settings = {"bootstrap.servers": servers, "isolation.level": "read_committed", "enable.auto.commit": False}
    with Consumer(settings) as consumer:
        partitions = [TopicPartition(topic, each.partition) for each in consumer.partitions_for(topic)]
        consumer.assign(partitions)
        consumer.seek_to_beginning(*partitions)
        ends = consumer.end_offsets(*partitions)
        rows = []
        while any(consumer.position(each) < ends[each] for each in partitions):
            rows += [(each.key, each.value and _parsed(each.value)) for each in consumer.poll(0.5)]
    return rows


def _parsed(value: bytes) -> Any:
    try:
        return json.loads(value)
    except ValueError:
        return value


@pytest.mark.long
def test_orders_are_enriched_and_one_of_nothing_is_a_dead_letter(
    spark: SparkSession, broker: Broker, tmp_path: Path
) -> None:
    """In one run of few orders. The other form restarts it, and has orders that are tried again."""
    for name in ("few.orders", "few.customers", "few.enriched"):
        broker.create_topic(name, 1)
    pipeline = replace(
        enrich_orders.pipeline,
        source=topic("few.orders"),
        tables={"customers": topic("few.customers")},
        sink=topic("few.enriched"),
        on_failure=RetryLadder(delays=["1ms"], dead_letters="few.dlq"),
        checkpoint=str(tmp_path),
    )
    orders = [json.loads(event.value) for event in data.orders(20, customer_count=5)]
    orders[3]["quantity"] = 0
    events = [data.Event("few.orders", each["customer_id"].encode(), json.dumps(each).encode()) for each in orders]
    customers = [each._replace(topic="few.customers") for each in data.customers(5)]
    send_events(broker.bootstrap_servers, [*customers, *events])
    run_once(pipeline, spark, broker.bootstrap_servers)

    known = {row["customer_id"]: row for row in (json.loads(each.value) for each in customers)}
    found = [row for _, row in committed(broker.bootstrap_servers, "few.enriched")]
    expected = [_enriched(order, known) for order in orders if order["quantity"]]
    assert sorted(found, key=_number) == sorted(expected, key=_number)
    assert [row["order_id"] for _, row in committed(broker.bootstrap_servers, "few.dlq")] == [3]


@pytest.mark.long
def test_orders_are_enriched_exactly_once(spark: SparkSession, servers: str, tmp_path: Path) -> None:
    make_topics(servers, ["orders", "customers", "orders.enriched"])
    ladder = RetryLadder(delays=["1ms"], dead_letters="orders.dlq")
    pipeline = replace(enrich_orders.pipeline, checkpoint=str(tmp_path), on_failure=ladder)
    orders = [json.loads(event.value) for event in data.orders(300, customer_count=40)]
    orders[7]["customer_id"], orders[8]["customer_id"], orders[9]["quantity"] = "too-early", "stray", 0
    events = [data.Event("orders", each["customer_id"].encode(), json.dumps(each).encode()) for each in orders]
    send_events(servers, [*data.customers(40), *events[:200]])
    run_once(pipeline, spark, servers)
    newcomer = {"customer_id": "too-early", "country": "JP", "tier": "pro"}
    late = data.Event("customers", b"too-early", json.dumps(newcomer).encode())
    send_events(servers, [late, *events[200:]])
    run_once(pipeline, spark, servers)

    known = {**{row["customer_id"]: row for _, row in committed(servers, "customers")}}
    expected = [_enriched(order, known) for order in orders if order["customer_id"] in known and order["quantity"]]
    found = [row for _, row in committed(servers, "orders.enriched")]
    assert sorted(found, key=_number) == sorted(expected, key=_number)
    assert len(found) == 298
    dead = {row["order_id"] for _, row in committed(servers, "orders.dlq")}
    assert dead == {8, 9}, "the stray when it was tried again, the order of nothing at once"


def _enriched(order: dict[str, Any], customers: dict[str, Any]) -> dict[str, Any]:
    customer = customers[order["customer_id"]]
    percent = 100 - enrich_orders.DISCOUNT_PERCENT.get(customer["tier"], 0)
    return {
        "order_id": order["order_id"],
        "customer_id": order["customer_id"],
        "country": customer["country"],
        "tier": customer["tier"],
        "sku": order["sku"],
        "quantity": order["quantity"],
        "total_cents": order["quantity"] * order["unit_price_cents"] * percent // 100,
    }


def _number(order: dict[str, Any]) -> int:
    return int(order["order_id"])


@pytest.mark.long
def test_windows_count_what_comes_late_but_not_what_comes_too_late(
    spark: SparkSession, servers: str, tmp_path: Path
) -> None:
    make_topics(servers, ["tide-levels", "tide-levels.10m"])
    pipeline = replace(tide_windows.pipeline, checkpoint=str(tmp_path))
    events = list(data.tide_levels(90))
    half = len(events) // 2
    send_events(servers, events[:half])
    listener = ProgressListener()
    spark.streams.addListener(listener)
    run_once(pipeline, spark, servers)
    _check_progress(listener, half)
    spark.streams.removeListener(listener)
    too_late = {"station": "vigo", "level_cm": 9999.0, "at_ms": data.START_MS}
    send_events(servers, [*events[half:], data.Event("tide-levels", b"vigo", json.dumps(too_late).encode())])
    run_once(pipeline, spark, servers)

    readings = [json.loads(event.value) for event in events]
    watermark_ms = max(each["at_ms"] for each in readings) - 15 * 60_000
    expected: Counter[tuple[str, int]] = Counter()
    for each in readings:
        start_ms = each["at_ms"] // 600_000 * 600_000
        if start_ms + 600_000 <= watermark_ms:
            expected[each["station"], start_ms] += 1
    rows = [row for _, row in committed(servers, "tide-levels.10m")]
    assert Counter({(row["station"], row["from_ms"]): row["readings"] for row in rows}) == expected
    assert len(rows) == len(expected) == 7 * len(data.STATIONS), "each window once"
    assert max(row["high_cm"] for row in rows) < 1000


def _check_progress(listener: ProgressListener, rows: int) -> None:
    """The listener reports rows, lag and open windows of the query; Spark calls it some time after the batch."""
    deadline = time.monotonic() + 30
    while sum(each.input_rows for each in listener.history("tide-windows")) < rows:
        assert time.monotonic() < deadline, listener.history("tide-windows")
        Event().wait(0.05)
    progress = next(each for each in listener.history("tide-windows") if each.input_rows)
    assert (progress.name, progress.batch_id, progress.lag_records) == ("tide-windows", 0, 0)
    assert progress.state_rows > 0
    assert progress.batch_ms > 0


@pytest.mark.long
def test_balances_live_in_their_topic(
    spark: SparkSession, servers: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also for a pipeline that knows nothing but the topic: a new checkpoint, and new payments only."""
    monkeypatch.setenv("TIDELOG_BOOTSTRAP_SERVERS", servers)
    make_topics(servers, ["payments", "balances"])
    # Several batches in one run: each must see what the one before has written.
    source = account_balances.pipeline.source
    assert isinstance(source, Topic)
    limited = replace(source, options={"maxOffsetsPerTrigger": "120"})
    pipeline = replace(account_balances.pipeline, source=limited, checkpoint=str(tmp_path / "first"))
    events = list(data.payments(500))
    send_events(servers, events[:200])
    run_once(pipeline, spark, servers)
    send_events(servers, events[200:400])
    run_once(pipeline, spark, servers)
    _empty(servers, "payments")
    send_events(servers, events[400:])
    run_once(replace(account_balances.pipeline, checkpoint=str(tmp_path / "second")), spark, servers)

    expected: dict[str, tuple[int, int]] = {}
    for event in events:
        payment = json.loads(event.value)
        before = expected.get(payment["account"], (0, 0))
        expected[payment["account"]] = (before[0] + payment["amount_cents"], before[1] + 1)
    topic = {"kafka.bootstrap.servers": servers, "subscribe": "balances", "kafka.isolation.level": "read_committed"}
    table = as_table(spark.read.format("tidelog").options(**topic).load(), account_balances.BALANCE)
    assert {row.account: (row.balance_cents, row.payments) for row in table.collect()} == expected


@pytest.mark.long
def test_changes_become_the_latest_rows(spark: SparkSession, servers: str, tmp_path: Path) -> None:
    make_topics(servers, ["db.customers", "customers.latest"])
    pipeline = replace(customer_changes.pipeline, checkpoint=str(tmp_path))
    events = list(data.customer_changes(300, row_count=30))
    send_events(servers, events[:150])
    run_once(pipeline, spark, servers)
    # The connector was started again, too: what it had sent last comes once more, and out of order.
    send_events(servers, [*reversed(events[120:150]), *events[150:]])
    run_once(pipeline, spark, servers)

    expected: dict[bytes, Any] = {}
    for event in events:
        change = json.loads(event.value)
        expected[event.key] = change["after"] and {**change["after"], "lsn": change["lsn"]}
    found = {key: row for key, row in committed(servers, "customers.latest") if key is not None}
    assert found == expected
    assert None in found.values(), "a row that was deleted is a record without a value"


@pytest.mark.long
def test_payments_reach_the_lake_once_over_a_crash_and_a_backfill(
    spark: SparkSession, broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    servers = broker.bootstrap_servers
    make_topics(servers, ["payments"])
    _empty(servers, "payments")
    monkeypatch.setenv("TIDELOG_LAKE", str(tmp_path / "lake"))
    path = Path(data.__file__).with_name("payments_lake.py")
    send_events(servers, data.payments(100))
    load_module(path).begin(servers)
    send_events(servers, data.payments(100, first=100))
    lake = load_module(path)
    pipeline = replace(lake.delta_table, checkpoint=str(tmp_path / "delta"))

    with monkeypatch.context() as crashing:
        crashing.setattr(delta_module.DeltaLake, "_add", _die)
        with pytest.raises(Exception, match="the machine went down"):
            run_once(pipeline, spark, servers)
    assert list((tmp_path / "lake" / "payments-delta").rglob("*.parquet")), (
        "files were written, and no commit names them"
    )
    run_once(pipeline, spark, servers)
    assert _ids(lake) == list(range(100, 200))
    assert lake.backfill(spark, broker.data_dir)
    assert not lake.backfill(spark, broker.data_dir)
    send_events(servers, data.payments(50, first=200))
    run_once(pipeline, spark, servers)
    assert _ids(lake) == list(range(250))

    files = replace(lake.parquet_files, checkpoint=str(tmp_path / "parquet"))
    run_once(files, spark, servers)
    send_events(servers, data.payments(50, first=250))
    run_once(files, spark, servers)
    found = spark.read.parquet(str(tmp_path / "lake" / "payments-parquet"))
    assert sorted(row.payment_id for row in found.collect()) == list(range(100, 300))


def _die(*_arguments: object) -> None:
    raise OSError("the machine went down")


def _ids(lake: Any) -> list[int]:
    from deltalake import DeltaTable

    table = DeltaTable(lake.table_path()).to_pyarrow_table()
    assert set(table["day"].to_pylist()) <= {f"2026-01-{day:02d}" for day in range(1, 4)}
    return sorted(table["payment_id"].to_pylist())


def _empty(servers: str, topic: str) -> None:
    """Earlier tests have used the topic: start with an empty one."""
    from tidelog.client.admin import Admin

    with Admin({"bootstrap.servers": servers}) as admin:
        admin.delete_topics([topic])
    make_topics(servers, [topic])


def test_events_can_be_sent_by_the_examples_own_command(servers: str, capsys: pytest.CaptureFixture[str]) -> None:
    from tidelog.examples.__main__ import main

    assert main(["fill", "customer_changes", "--records", "10", "--bootstrap-server", servers]) == 0
    assert capsys.readouterr().out == "10 events sent\n"
    with Producer({"bootstrap.servers": servers}) as producer:
        assert producer.partitions_for("db.customers") == 3
