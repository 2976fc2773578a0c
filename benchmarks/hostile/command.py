"""`python -m benchmarks hostile`: send every hostile request and write the table.

Without `--kafka` Tidelog runs alone. A request that went beyond a limit of ours is sent up to two more times, and the
least counts: on a machine that does other things too, one long wait proves nothing.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from benchmarks import apache_kafka, tidelog_broker
from benchmarks.admin import Admin
from benchmarks.apache_kafka import KafkaBroker, ZooKeeper
from benchmarks.hostile import report
from benchmarks.hostile.bystander import Bystander
from benchmarks.hostile.measuring import Outcome, measure
from benchmarks.hostile.preparing import prepare
from benchmarks.hostile.rendering import Target
from benchmarks.hostile.requests import HostileRequest, generated, named
from benchmarks.processes import BrokerProcess
from benchmarks.report import OURS, THEIRS
from benchmarks.tidelog_broker import TidelogBroker

PAGE: Final = Path(__file__).resolve().parent.parent / "HOSTILE.md"
SETTINGS: Final = {"group.initial.rebalance.delay.ms": "0", "auto.create.topics.enable": "false"}
CALM, VICTIM = "calm", "victim"
_TRIES: Final = 3
_BASELINE_SECONDS: Final = 5.0


def main(arguments: Sequence[str]) -> int:
    options = _options(arguments)
    tidelog_broker.use_source_tree()
    requests = [*generated(all_versions=options.all_versions), *named()]
    requests = [each for each in requests if not options.only or any(word in each.name for word in options.only)]
    outcomes: dict[str, list[Outcome]] = {}
    baselines: dict[str, float] = {}
    notes = []
    with tempfile.TemporaryDirectory(prefix="tidelog-hostile-") as directory, contextlib.ExitStack() as stack:
        brokers: dict[str, BrokerProcess] = {OURS: TidelogBroker(Path(directory) / "tidelog", SETTINGS)}
        if options.kafka:
            reason = apache_kafka.unavailable_reason()
            if reason is None:
                zookeeper = stack.enter_context(ZooKeeper(Path(directory) / "zookeeper"))
                brokers[THEIRS] = KafkaBroker(Path(directory) / "kafka", zookeeper, SETTINGS)
                notes.append(f"Apache Kafka {apache_kafka.VERSION} in ZooKeeper mode, 1 GB heap")
            else:
                notes.append(f"without Apache Kafka: {reason}")
        for name, broker in brokers.items():
            with broker:
                baselines[name], outcomes[name] = _attack(name, broker, requests)
    page = report.page(outcomes, baselines, notes)
    print(page)
    output = options.output or (None if options.only else PAGE)
    if output is not None:
        output.write_text(page)
    return 0


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks hostile", description=__doc__)
    parser.add_argument("--kafka", action="store_true", help="send the same to Apache Kafka")
    parser.add_argument("--all-versions", action="store_true", help="every version, not only those that differ most")
    parser.add_argument("--only", action="append", metavar="TEXT", help="requests whose name contains this")
    parser.add_argument("--output", type=Path, help=f"where the page goes (default {PAGE.name} after a whole run)")
    return parser.parse_args(arguments)


def _attack(name: str, broker: BrokerProcess, requests: Sequence[HostileRequest]) -> tuple[float, list[Outcome]]:
    """The bystander's worst wait in peace, and what each request did."""
    admin = Admin.connect(broker.address)
    calm, victim = (Target(topic, admin.create(topic)) for topic in (CALM, VICTIM))
    prepare(broker.address, admin)
    # The work of a JVM is not that of its main thread.
    with Bystander(broker.address, calm, broker.child.pid if name == OURS else 0) as bystander:
        bystander.begin()
        time.sleep(_BASELINE_SECONDS)
        baseline_ms = bystander.end().worst_ms
        outcomes = []
        for number, request in enumerate(requests):
            tries = _TRIES if name == OURS else 1
            outcome = min(_tries(request, broker, victim, bystander, baseline_ms, tries), key=report.waited_ms)
            outcomes.append(outcome)
            print(
                f"{name} {number + 1}/{len(requests)} {request.name}: {outcome.size_bytes} B, {outcome.fate} "
                f"({outcome.reply_bytes} B), "
                f"{outcome.worst_ms:.1f} ms, {outcome.worst_work_ms:.1f} ms work, "
                f"{outcome.grown_bytes / 1e6:.1f} MB {outcome.failure or ''}",
                file=sys.stderr,
                flush=True,
            )
    return baseline_ms, outcomes


def _tries(
    request: HostileRequest,
    broker: BrokerProcess,
    victim: Target,
    bystander: Bystander,
    baseline_ms: float,
    tries: int,
) -> Iterator[Outcome]:
    for _ in range(tries):
        outcome = measure(request, broker.address, broker.child.pid, victim, bystander)
        yield outcome
        if report.is_within_bounds(outcome, baseline_ms):
            return
