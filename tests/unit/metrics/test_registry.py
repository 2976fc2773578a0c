"""The registry: what metrics show, in both formats, read by Prometheus' own parsers."""

from collections.abc import Iterable
from functools import partial

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_text

from tidelog.metrics import Family, Kind, Registry, labels_text


def _values(registry: Registry) -> dict[str, dict[tuple[str, ...], float]]:
    """Samples by name and label values, which both formats must agree upon."""
    pages = []
    for is_open, parse in ((False, parse_text), (True, parse_openmetrics)):
        page: dict[str, dict[tuple[str, ...], float]] = {}
        for family in parse(registry.exposition(is_open).decode()):
            for sample in family.samples:
                page.setdefault(sample.name, {})[tuple(sample.labels.values())] = sample.value
        pages.append(page)
    assert pages[0] == pages[1]
    return pages[0]


def test_a_counter_has_a_total_by_its_labels() -> None:
    registry = Registry()
    counter = registry.counter("orders", "Orders.", ["region"])
    counter.labels("north").increment()
    counter.labels("north").increment(2.5)
    counter.labels("south").increment()
    assert _values(registry) == {"orders_total": {("north",): 3.5, ("south",): 1.0}}


def test_a_counter_never_falls() -> None:
    counter = Registry().counter("orders_total", "Orders.")
    with pytest.raises(ValueError, match="-1"):
        counter.increment(-1)
    assert counter.value == 0


def test_a_gauge_is_set_or_read_from_a_function() -> None:
    registry = Registry()
    registry.gauge("set", "A value.").set(3)
    level = [7.0]
    registry.gauge("read", "A value.", function=lambda: level[0])
    assert _values(registry) == {"set": {(): 3}, "read": {(): 7}}
    level[0] = 8
    assert _values(registry)["read"] == {(): 8}


def test_a_summary_shows_quantiles_within_six_percent_a_count_and_a_sum() -> None:
    registry = Registry()
    summary = registry.summary("wait_seconds", "Waits.", ["queue"])
    for milliseconds in range(1, 1001):
        summary.labels("a").observe(milliseconds / 1000)
    shown = _values(registry)
    for share, quantile in ((0.5, "0.5"), (0.95, "0.95"), (0.99, "0.99")):
        assert shown["wait_seconds"]["a", quantile] == pytest.approx(share, rel=0.06)
    assert shown["wait_seconds_count"]["a",] == 1000
    assert shown["wait_seconds_sum"]["a",] == pytest.approx(500.5)


def test_a_histogram_counts_at_or_below_each_bound() -> None:
    registry = Registry()
    histogram = registry.histogram("size_bytes", "Sizes.", buckets=[10, 100])
    for size in (1, 10, 11, 1000):
        histogram.observe(size)
    shown = _values(registry)
    assert shown["size_bytes_bucket"] == {("10.0",): 2, ("100.0",): 3, ("+Inf",): 4}
    assert shown["size_bytes_count"] == {(): 4}


def test_families_of_one_name_from_several_collectors_stand_together() -> None:
    """Both formats demand that all samples of a name stand under one header."""
    registry = Registry()

    def collector(client: str) -> Iterable[Family]:
        labels = labels_text(["client"], [client])
        return [Family("sent", Kind.COUNTER, "Sent.", [("_total", labels, 1)]), Family("up", Kind.GAUGE, "Up.", [])]

    for client in ("a", "b"):
        registry.add_collector(partial(collector, client))
    assert _values(registry) == {"sent_total": {("a",): 1, ("b",): 1}}
    assert registry.exposition().count(b"# TYPE sent_total counter") == 1


def test_a_collector_that_is_removed_shows_nothing() -> None:
    registry = Registry()

    def collector() -> Iterable[Family]:
        return [Family("sent", Kind.COUNTER, "Sent.", [("_total", "", 1)])]

    registry.add_collector(collector)
    registry.remove_collector(collector)
    assert registry.exposition() == b""


def test_a_count_keeps_its_name_and_has_no_type() -> None:
    registry = Registry()
    registry.add_collector(lambda: [Family("time_count", Kind.COUNT, "Requests.", [("", "", 2)])])
    assert b"# TYPE time_count untyped" in registry.exposition()
    assert b"# TYPE time_count unknown" in registry.exposition(openmetrics=True)
    assert _values(registry) == {"time_count": {(): 2}}


def test_infinite_and_undefined_values_are_written_as_the_formats_have_them() -> None:
    registry = Registry()
    for name, value in (("up", float("inf")), ("down", float("-inf")), ("none", float("nan"))):
        registry.gauge(name, "A value.").set(value)
    page = registry.exposition().decode()
    assert "up +Inf\n" in page
    assert "down -Inf\n" in page
    assert "none NaN\n" in page


@pytest.mark.parametrize("name", ["", "1st", "a-b", "a b", "a\n"])
def test_a_name_that_no_page_can_have_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="metric name"):
        Registry().gauge(name, "A value.")


@pytest.mark.parametrize("label", ["le", "quantile", "__name__", "a-b", ""])
def test_a_label_name_that_may_not_be_used_is_refused(label: str) -> None:
    with pytest.raises(ValueError, match="label"):
        Registry().gauge("g", "A value.", [label])


def test_a_name_may_be_declared_once() -> None:
    registry = Registry()
    registry.counter("a_total", "A.")
    with pytest.raises(ValueError, match="exists already"):
        registry.counter("a", "A.")


def test_labels_are_given_whole_and_in_order() -> None:
    gauge = Registry().gauge("g", "A value.", ["a", "b"])
    with pytest.raises(ValueError, match="labels"):
        gauge.labels("only one")
    with pytest.raises(ValueError, match=r"labels\(a, b\)"):
        gauge.set(1)


def test_a_page_is_made_in_pieces() -> None:
    """A broker's loop serves clients between two of them."""
    registry = Registry()
    samples = [("", f'n="{number}"', number) for number in range(10_000)]
    registry.add_collector(lambda: [Family("n", Kind.GAUGE, "Numbers.", iter(samples))])
    pieces = list(registry.exposition_pieces())
    assert len(pieces) > 40
    assert b"".join(pieces).count(b"\n") == 10_002
