"""The events of the examples: the same for the same seed, and of the shapes that the pipelines count on."""

import json
from collections import Counter
from typing import Any

import pytest

from tidelog.examples import data
from tidelog.examples.__main__ import EXAMPLES, main
from tidelog.examples.topics import TOPICS

GENERATORS = [data.customers, data.orders, data.tide_levels, data.payments, data.customer_changes]


def parsed(events):
    return [json.loads(event.value) for event in events]


@pytest.mark.parametrize("generate", GENERATORS)
def test_the_same_seed_makes_the_same_events(generate):
    assert list(generate(50)) == list(generate(50))
    assert list(generate(50, seed=98)) != list(generate(50, seed=99))


@pytest.mark.parametrize("generate", GENERATORS)
def test_every_event_has_a_topic_that_can_be_made(generate):
    assert {event.topic for event in generate(20)} <= set(TOPICS)


def test_orders_belong_to_customers():
    known = {each["customer_id"] for each in parsed(data.customers(30))}
    orders = parsed(data.orders(200, customer_count=30))
    assert {each["customer_id"] for each in orders} <= known
    assert [each["order_id"] for each in orders] == list(range(200))
    assert [each["order_id"] for each in parsed(data.orders(5, first=200))] == list(range(200, 205))


def test_three_orders_fail_each_in_its_own_way():
    none, stray, broken = data.odd_orders(first=200)
    assert json.loads(none.value)["quantity"] == 0
    assert json.loads(stray.value)["customer_id"] not in {each["customer_id"] for each in parsed(data.customers())}
    with pytest.raises(ValueError, match=r"Unterminated|Expecting"):
        json.loads(broken.value)


def test_some_readings_come_late_and_none_is_lost():
    readings = parsed(data.tide_levels(60))
    assert Counter(each["station"] for each in readings) == dict.fromkeys(data.STATIONS, 60)
    latest, late = 0, 0
    for each in readings:
        late += each["at_ms"] < latest - 60_000
        latest = max(latest, each["at_ms"])
    assert 0 < late < len(readings) // 10


def test_changes_tell_before_and_after_and_some_come_twice():
    changes = parsed(data.customer_changes(100))
    assert len(changes) == 104
    rows: dict[str, Any] = {}
    for change in changes:
        if change["lsn"] <= rows.get("lsn", 0):
            continue
        rows["lsn"] = change["lsn"]
        row_id = (change["after"] or change["before"])["id"]
        assert change["before"] == rows.get(row_id)
        rows[row_id] = change["after"]
    assert {"c", "u", "d"} == {change["op"] for change in changes}


def test_the_command_lists_every_example(capsys):
    assert main([]) == 0
    said = capsys.readouterr().out
    assert all(f"{name}.py" in said for name in EXAMPLES)


def test_every_example_reads_and_writes_topics_that_can_be_made():
    for example in EXAMPLES.values():
        assert set(example.topics) <= set(TOPICS)
        assert {event.topic for event in example.events(20)} <= set(example.topics)
