"""What the main demo is made of, without Spark and without a broker."""

import json
from types import SimpleNamespace

import pytest

from tidelog.cli.errors import CommandError
from tidelog.examples import data
from tidelog.examples.demo import spark as demo_spark
from tidelog.examples.demo.bars import two_bars
from tidelog.examples.demo.orders import DEAD, OrderStream, _made_worse
from tidelog.examples.demo.plot import Sample, draw_in_terminal, rates
from tidelog.examples.demo.watch import Tally, records_reached

SAMPLES = [Sample(0.5 * index, 1000 * index, 800 * max(0, index - 2)) for index in range(20)]


def test_rates_are_records_a_second():
    times, produced, processed = rates(SAMPLES)
    assert times[-1] == 9.5
    assert produced[-1] == 2000
    assert processed[-1] == 1600


def test_a_batch_counts_for_the_whole_time_it_took():
    """It finishes all at once, which is no rate."""
    samples = [Sample(float(second), 0, {4: 100, 5: 100, 6: 400}.get(second, 0)) for second in range(7)]
    samples.append(Sample(7.0, 0, 400))
    assert rates(samples)[2] == [25, 25, 25, 25, 150, 150, 0]


def test_nothing_measured_is_no_rate():
    assert rates([]) == ([], [], [])
    assert rates(SAMPLES[:1]) == ([], [], [])


def test_lag_is_never_less_than_nothing():
    assert Sample(1.0, 5, 9).lag == 0


@pytest.mark.parametrize("samples", [SAMPLES, SAMPLES[:2]])
def test_the_terminal_gets_round_numbers_and_no_colours_unless_it_can_show_them(samples):
    said = draw_in_terminal(samples, is_colored=False)
    assert "records / s" in said
    assert "produced" in said
    assert "\x1b" not in said
    assert "e3" not in said


def test_a_tally_knows_what_came_twice():
    tally = Tally()
    for number in (1, 2, 1):
        tally.add_order(json.dumps({"order_id": number}).encode())
    assert (tally.seen, tally.repeated) == ({1, 2}, 1)
    tally.add_dead(b"\xff", {"tidelog.error.message": b"no JSON", "tidelog.attempts": b"3"})
    assert tally.dead[0][1:] == ("3", "no JSON")


@pytest.mark.parametrize(("seconds", "rate"), [(2, 50), (1, 5), (25, 2000)])
def test_only_a_few_orders_make_trouble(seconds, rate):
    orders = OrderStream("127.0.0.1:1", seconds, rate)
    assert orders.total == seconds * rate
    assert len(orders.expected) == orders.total - DEAD


@pytest.mark.parametrize("kind", ["no JSON", "none", "stray", "new buyer"])
def test_trouble_keeps_the_topic_and_changes_the_order(kind):
    event = next(data.orders(1))
    worse = _made_worse(event, kind)
    assert worse.topic == event.topic
    assert worse.value != event.value


def test_progress_is_read_from_the_offsets_of_one_topic():
    report = {"sources": [{"endOffset": {"orders": {"0": 5, "1": 7}, "orders.retry.1": {"0": 3}, "$from": {}}}]}
    assert records_reached(report, "orders") == 12
    assert records_reached(None, "orders") == 0


def test_without_spark_the_demo_says_what_to_install(monkeypatch):
    monkeypatch.setattr(demo_spark, "find_spec", lambda name: None if name == "pyspark" else SimpleNamespace())
    with pytest.raises(CommandError, match=r"pyspark is not installed: pip install 'tidelog\[demo\]'"):
        demo_spark.run(1, 1, "x.png")


def test_a_picture_that_cannot_be_written_is_refused_before_anything_starts():
    with pytest.raises(CommandError, match="is not a writable directory"):
        demo_spark.run(1, 1, "/nowhere/x.png")


def test_a_log_gets_lines_instead_of_bars(capsys):
    with two_bars(10, 8) as show:
        show(5, 4)
        show(10, 8)
    assert capsys.readouterr().err.count("enriched: ") == 2
