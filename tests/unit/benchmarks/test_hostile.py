"""The hostile requests are what they claim to be: well-formed where they say so, and of the size that was asked for."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest

from benchmarks.hostile import attack, rendering, report
from benchmarks.hostile.attack import Attack
from benchmarks.hostile.bystander import BystanderSilentError
from benchmarks.hostile.contestants import Contestant
from benchmarks.hostile.journal import Journal
from benchmarks.hostile.measuring import STOPPED_SERVING, Outcome
from benchmarks.hostile.rendering import Renderer, Target
from benchmarks.hostile.requests import HostileRequest, generated, named, served
from tidelog.wire.errors import WireError
from tidelog.wire.frames import parse_request_header
from tidelog.wire.messages.metadata import MetadataRequest
from tidelog.wire.schema import Message

TARGET = Target("victim", bytes(range(16)))
VERSIONS = [(request, version) for request, versions in served() for version in versions]


def decoded(request: type[Message], version: int, frame: bytes) -> Message:
    header = parse_request_header(frame, 4)
    assert (header.api_key, header.api_version) == (request.api_key, version)
    return request.decode(frame, version, header.body_offset)


def test_plausible_requests_of_every_version_can_be_read() -> None:
    for request, version in VERSIONS:
        frame = Renderer(request, version, TARGET).frame()
        assert decoded(request, version, frame).encode(version) == frame[parse_request_header(frame, 4).body_offset :]


def test_lists_hold_as_many_elements_as_fit() -> None:
    for special in (rendering.repeated, rendering.distinct, rendering.smallest):
        frame = Renderer(MetadataRequest, 12, TARGET).frame({("topics",): special(10_000)})
        topics = decoded(MetadataRequest, 12, frame).topics  # type: ignore[attr-defined]
        assert 9_000 < len(frame) < 11_000
        assert len(topics) > 300
        names = {topic.name for topic in topics}
        assert len(names) == (len(topics) if special is rendering.distinct else 1)


def test_lies_are_refused() -> None:
    renderer = Renderer(MetadataRequest, 12, TARGET)
    lies = [
        renderer.frame({("topics",): rendering.claimed(2**31 - 2)}),
        renderer.frame({("topics", "name"): rendering.long_text(40_000)}),
        renderer.frame({("topics",): rendering.tagged_element(1_000)}),
        renderer.frame(header_tags=rendering.tags(1_000)),
        renderer.frame(body_tags=rendering.tags(1_000)),
    ]
    for frame in lies:
        with pytest.raises(WireError):
            decoded(MetadataRequest, 12, frame)


def test_every_list_of_every_api_is_abused() -> None:
    requests = list(generated(1_000))
    abused = {(each.api, each.version, each.kind) for each in requests}
    assert len(abused) == len(requests)
    for request, version in VERSIONS:
        if version == request.versions[1]:
            api = request.__name__.removesuffix("Request")
            for path, *_ in Renderer(request, version, TARGET).arrays():
                assert (api, version, f"{'.'.join(path)}, distinct") in abused
    assert {each.api for each in named()} <= {each.api for each in requests}


def outcome(wait_ms: float, work_ms: float = 0.0, grown_bytes: int = 0, fate: str = "answered") -> Outcome:
    request = HostileRequest("Metadata", 12, "topics, empty", lambda _target: b"")
    return Outcome(request, 900_000, fate, 10, wait_ms, work_ms, grown_bytes, None)


def test_bounds_are_those_of_the_broker_and_not_of_a_busy_machine() -> None:
    assert report.is_within_bounds(outcome(19), 0)
    assert not report.is_within_bounds(outcome(21), 0)
    assert report.is_within_bounds(outcome(21), baseline_ms=30)
    assert report.is_within_bounds(outcome(80, work_ms=8), 0)
    assert not report.is_within_bounds(outcome(1, grown_bytes=200_000_000), 0)
    assert not report.is_within_bounds(outcome(1, fate="silent"), 0)


def test_the_page_shows_the_worst_version_of_each_request(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report, "machine", lambda: ["this machine"])
    better = outcome(5, 4)
    worse = better._replace(request=better.request._replace(version=3), worst_ms=50, worst_work_ms=40)
    page = report.page({report.OURS: [better, worse]}, {report.OURS: 1.0}, ["a note"])
    assert "Metadata v3: topics, empty | 900.0 kB | 50.0 | 40.0 | 0.0 | 10 B" in page
    assert "Metadata v12" not in page
    assert "- a note" in page


def test_a_broker_that_stopped_serving_is_shown_as_such(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report, "machine", lambda: ["this machine"])
    stopped = outcome(0, fate=STOPPED_SERVING)
    assert not report.is_within_bounds(stopped, 0)
    page = report.page({report.OURS: [outcome(5, 4)], report.THEIRS: [stopped]}, {}, [])
    assert "| 5.0 | 4.0 | 0.0 | 10 B |  |  | stopped serving |" in page


def test_a_run_that_was_interrupted_goes_on_where_it_was(tmp_path: Path) -> None:
    requests = list(generated(1_000, versions="newest"))[:3]
    path = tmp_path / "journal.jsonl"
    journal = Journal(path, requests)
    journal.add_baseline(report.OURS, 1.5)
    measured = outcome(5, 4)._replace(request=requests[1])
    journal.add(report.OURS, measured)
    again = Journal(path, requests)
    assert again.baselines == {report.OURS: 1.5}
    assert again.outcomes == {report.OURS: [measured]}
    assert [again.holds(report.OURS, request) for request in requests] == [False, True, False]
    assert not again.holds(report.THEIRS, requests[1])
    assert Journal(path, requests[:1]).outcomes == {}, "requests of another run are left alone"
    again.clear()
    assert Journal(path, requests).outcomes == {}


# --- brokers that stop serving ---


class FakeBroker:
    """Answers a number of requests, then is silent on every connection, as one that ran out of memory is."""

    def __init__(self, answers: int) -> None:
        self.address = ("127.0.0.1", 0)
        self.child = SimpleNamespace(pid=os.getpid(), check_alive=lambda: None)
        self.answers = answers


def test_a_broker_that_stops_serving_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    """A request without an answer ended the run; now the next request is sent to another broker."""
    started: list[FakeBroker] = []

    @contextmanager
    def start() -> Iterator[FakeBroker]:
        started.append(FakeBroker(answers=2))
        yield started[-1]

    def sent(request: HostileRequest, frame: bytes, *_: object) -> Outcome:
        broker = started[-1]
        broker.answers -= 1
        if broker.answers < 0:
            raise BystanderSilentError("the bystander was not served")
        return outcome(1)._replace(request=request, size_bytes=len(frame))

    def set_up(self: Attack) -> None:
        self._running.close()
        self._broker = self._running.enter_context(self._contestant.start())
        self._victim = TARGET

    monkeypatch.setattr(attack, "measure", sent)
    monkeypatch.setattr(Attack, "_start", set_up)
    monkeypatch.setattr(Attack, "_is_serving", lambda self: self._broker.answers > 0)
    under_attack = Attack(Contestant(start, 1.0, 1.0, is_single_threaded=True), tries=1)  # type: ignore[arg-type]
    under_attack._bystander = None  # type: ignore[assignment]
    under_attack._start()
    requests = list(generated(1_000, versions="newest"))[:6]
    fates = [under_attack.measure(request).fate for request in requests]
    assert fates == ["answered", "answered", STOPPED_SERVING] * 2
    assert len(started) == 3
