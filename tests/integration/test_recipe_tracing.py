"""docs/recipes/tracing.md: its programs on a broker, and its headers as OpenTelemetry's own propagator sees them."""

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.propagate import extract, inject

from tests.integration.cli_support import run_here
from tests.integration.client_examples import until_idle
from tests.integration.client_support import read_all
from tests.integration.recipes import commands, programs
from tidelog.client import Consumer, Producer, TopicPartition
from tidelog.testing import Broker


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker({"transaction.state.log.num.partitions": 1, "offsets.topic.num.partitions": 1}) as running:
        yield running


@pytest.fixture
def page(broker: Broker) -> list[str]:
    return programs("tracing.md", {"localhost:9092": broker.bootstrap_servers})


@pytest.fixture
def tracing(page: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """The first program of the page, as the module that the others import."""
    (tmp_path / "tracing.py").write_text(page[0])
    monkeypatch.syspath_prepend(tmp_path)
    yield importlib.import_module("tracing")
    del sys.modules["tracing"]


def run(program: str) -> dict[str, Any]:
    names: dict[str, Any] = {"__name__": "example"}
    exec(compile(program, "docs/recipes/tracing.md", "exec"), names)
    return names


def span_of(headers: Any) -> trace.SpanContext:
    carrier = {name: value.decode() for name, value in headers}
    return trace.get_current_span(extract(carrier)).get_span_context()


def test_an_order_is_found_in_every_topic_that_it_went_through(
    broker: Broker,
    page: list[str],
    tracing: ModuleType,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("orders", "invoices"):
        broker.create_topic(name)
    run(page[1])
    with until_idle(monkeypatch):
        run(page[2])
    run(page[4])["find"](broker.bootstrap_servers, "order-1042")
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[1] for line in lines] == ["orders-0", "invoices-0"]
    first, second = (line.split()[-1].split("-") for line in lines)
    assert first[1] == second[1], "the trace stays"
    assert first[2] != second[2], "the step is another"
    for command in commands("tracing.md"):
        shown = run_here(*command.split(" | ")[0].split()[1:], server=broker.bootstrap_servers).out.splitlines()
        assert [first[1] in line for line in shown if "order-1042" in line] == [True]
        assert len(shown) == 3


def test_opentelemetry_reads_these_headers_and_these_programs_read_its_own(tracing: ModuleType) -> None:
    headers = tracing.start_trace("order-1")
    span = span_of(headers)
    assert span.is_valid
    assert span.trace_flags.sampled
    assert f"{span.trace_id:032x}" == tracing.trace_id(headers)
    carrier: dict[str, str] = {}
    state = trace.TraceState([("vendor", "1")])
    theirs = trace.SpanContext(span.trace_id, 7, is_remote=False, trace_flags=span.trace_flags, trace_state=state)
    inject(carrier, context=trace.set_span_in_context(trace.NonRecordingSpan(theirs)))
    followed = span_of(tracing.follow([(name, value.encode()) for name, value in carrier.items()]))
    assert (followed.trace_id, followed.trace_flags, followed.trace_state) == (span.trace_id, span.trace_flags, state)
    assert followed.span_id not in (7, span.span_id)


@pytest.mark.parametrize(
    "value",
    [
        None,
        b"",
        b"ff-" + b"1" * 32 + b"-" + b"2" * 16 + b"-01",
        b"00-" + b"0" * 32 + b"-" + b"2" * 16 + b"-01",
        b"00-" + b"1" * 32 + b"-" + b"0" * 16 + b"-01",
        b"00-" + b"A" * 32 + b"-" + b"2" * 16 + b"-01",
    ],
)
def test_what_is_no_trace_is_replaced_by_one_as_opentelemetry_does(tracing: ModuleType, value: bytes | None) -> None:
    headers = [("traceparent", value), ("correlation-id", b"order-1")]
    assert tracing.trace_id(headers) is None
    assert value is None or not span_of([("traceparent", value)]).is_valid
    followed = tracing.follow(headers)
    assert span_of(followed).is_valid
    assert ("correlation-id", b"order-1") in followed


def test_a_program_with_opentelemetry_keeps_the_trace(broker: Broker, page: list[str], tracing: ModuleType) -> None:
    broker.create_topic("placed")
    headers = tracing.start_trace("order-7")
    with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
        producer.send("placed", b"1 pear", headers=headers).result(10)
        with Consumer(bootstrap_servers=broker.bootstrap_servers) as consumer:
            consumer.assign([TopicPartition("placed", 0)])
            consumer.seek_to_beginning()
            run(page[5])["invoice"](next(iter(consumer)), producer)
        producer.flush()
    found = read_all(broker.bootstrap_servers, "invoices")[-1]
    assert found.value() == b"invoice: 1 pear"
    assert span_of(found.headers()).trace_id == span_of(headers).trace_id
    assert ("correlation-id", b"order-7") in (found.headers() or [])
