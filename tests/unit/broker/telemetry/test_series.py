"""What clients send, as a page shows it."""

from __future__ import annotations

import pytest

from tidelog.broker.telemetry import series as limits
from tidelog.broker.telemetry.otlp import Meaning, Point
from tidelog.broker.telemetry.series import ClientSeries
from tidelog.metrics.exposition import page_in_pieces

ONE, OTHER = bytes(15) + b"\2", bytes(15) + b"\3"
ABOUT = {"client_id": 'c"1', "client_software_name": "lib", "client_software_version": "1.0", "client_source_port": "9"}
LABELS = (
    'client_instance_id="AAAAAAAAAAAAAAAAAAAAAg",client_id="c\\"1",'
    'client_software_name="lib",client_software_version="1.0"'
)


def page(series: ClientSeries) -> list[str]:
    lines = b"".join(page_in_pieces(series.families(), False)).decode().splitlines()
    return [line for line in lines if not line.startswith("#")]


def point(name: str = "org.apache.kafka.producer.a.b", value: float = 1.0, meaning: Meaning = Meaning.GAUGE) -> Point:
    return Point(name, meaning, value, ())


def test_a_value_is_shown_under_the_labels_of_its_client() -> None:
    series = ClientSeries()
    attributes = (("node.id", "7"), ("client_id", "forged"), ("le", "1"), ("9", "nine"))
    series.add(ONE, ABOUT, point()._replace(attributes=attributes))
    assert page(series) == [f'kafka_client_producer_a_b{{{LABELS},label_9="nine",node_id="7"}} 1.0']


def test_gauges_are_replaced_and_increases_add_up() -> None:
    series = ClientSeries()
    for value in (1.0, 5.0, 3.0):
        series.add(ONE, {}, point("g", value))
        series.add(ONE, {}, point("change", value, Meaning.CHANGE))
        series.add(ONE, {}, point("sent.total", value, Meaning.INCREASE))
        series.add(ONE, {}, point("all", value, Meaning.TOTAL))
    assert [(line.partition("{")[0], line.rpartition(" ")[2]) for line in page(series)] == [
        ("kafka_client_all_total", "3.0"),
        ("kafka_client_change", "9.0"),
        ("kafka_client_g", "3.0"),
        ("kafka_client_sent_total", "9.0"),
    ]


def test_a_metric_keeps_its_type_and_one_without_a_name_is_dropped() -> None:
    series = ClientSeries()
    series.add(ONE, {}, point("a"))
    series.add(OTHER, {}, point("a", meaning=Meaning.TOTAL))
    series.add(OTHER, {}, point(""))
    assert (len(series), series.received, series.dropped) == (1, 3, 2)


def test_what_clients_may_add_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, limit in (("SERIES_PER_CLIENT_MAX", 3), ("SERIES_MAX", 4), ("NAMES_MAX", 4)):
        monkeypatch.setattr(limits, name, limit)
    series = ClientSeries()
    for index in range(6):
        series.add(ONE, {}, point(f"m{index}"))
        series.add(OTHER, {}, point("m0")._replace(attributes=(("n", str(index)),)))
    assert len(series) == 4
    assert series.dropped == 8
    series.add(ONE, {}, point("m0", 9.0))
    assert series.dropped == 8, "what is there goes on"
    series.forget(ONE)
    series.forget(ONE)
    series.forget(OTHER)
    assert (len(series), page(series)) == (0, [])
    series.add(ONE, {}, point("m9"))
    assert len(series) == 1
