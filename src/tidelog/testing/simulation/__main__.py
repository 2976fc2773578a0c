"""`python -m tidelog.testing.simulation`: many seeds, in as many processes as there are processors.

A seed that fails, be it with an exception, is named with the command that replays it, and the others go on.

A table says which faults happened and what clients and brokers did; a fault that never happened is a failure of the
simulator. A seed that fails is run again with fewer faults, and printed with the command that replays it, the shortened
schedule and the last lines of its story. The exit code is the number of seeds that failed, at most 100.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from itertools import count, islice
from typing import Final

from tidelog.testing.simulation.accounts import EXPECTED_ACCOUNTS
from tidelog.testing.simulation.coverage import EXPECTED_STATES
from tidelog.testing.simulation.delay_switching import EXPECTED_SWITCHES
from tidelog.testing.simulation.delayed_load import EXPECTED_DELAYED_WORK
from tidelog.testing.simulation.faults import FAILOVERS, FAULTS, STEPS, draw_schedule
from tidelog.testing.simulation.invariants import Step
from tidelog.testing.simulation.run import FAULT_SECONDS, FAULTS_PER_SEED, Report, run_seed, shorten, warm_up
from tidelog.testing.simulation.share_load import EXPECTED_SHARE_WORK
from tidelog.testing.simulation.workload import EXPECTED_WORK

_HASH_SEED: Final = "PYTHONHASHSEED"
_MANY_SEEDS: Final = 150
"""With fewer seeds than this, some faults may not come up."""
_INCOMPLETE: Final = 101
_WORK: Final = (
    *EXPECTED_WORK,
    *EXPECTED_ACCOUNTS,
    *EXPECTED_DELAYED_WORK,
    *EXPECTED_SWITCHES,
    *(step.value for step in Step),
)
_PROGRESS_SEEDS: Final = 100
"""How often a line says how far it is, where no terminal shows it."""


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parse(arguments)
    if os.environ.get(_HASH_SEED) != "0":
        # The order of sets of strings must be the same in every run of a seed.
        os.environ[_HASH_SEED] = "0"
        os.execv(sys.executable, [sys.executable, "-m", "tidelog.testing.simulation", *(arguments or sys.argv[1:])])
    reports = list(_progress(_run_all(options), options))
    _print_summary(reports, options)
    failed = [report for report in reports if report.failed]
    for report in failed[: options.show]:
        _print_failure(shorten(report, options.brokers) if options.shorten else report, options.brokers)
    missing = _missing(reports, options.brokers, has_shares=options.shares)
    if missing and len(reports) >= _MANY_SEEDS:
        print(f"these never happened: {', '.join(missing)}", file=sys.stderr)
        return _INCOMPLETE
    return min(len(failed), 100)


def _missing(reports: list[Report], brokers: int, *, has_shares: bool = False) -> list[str]:
    """Faults, and steps of the protocol, that no seed has brought about."""
    if brokers == 1:
        return []
    happened = {name for report in reports for name in (*report.faults, *report.counts)}
    return sorted({*FAULTS, *FAILOVERS, *STEPS, *_WORK, *(EXPECTED_SHARE_WORK if has_shares else ())} - happened)


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tidelog.testing.simulation",
        description="Runs simulated clusters under faults and checks that nothing acknowledged is lost.",
        epilog="example: python -m tidelog.testing.simulation --seeds 200",
    )
    parser.add_argument("--seed", type=int, default=None, help="run this seed alone, and print every event")
    parser.add_argument("--seeds", type=int, default=100, help="how many seeds to run (default: 100)")
    parser.add_argument("--first-seed", type=int, default=0, help="the first of them, to go on from (default: 0)")
    parser.add_argument("--minutes", type=float, default=None, help="run seeds for this long instead of a number")
    parser.add_argument("--brokers", type=int, default=3, help="how many brokers a cluster has (default: 3)")
    parser.add_argument("--delayed", action="store_true", help="delayed records in every seed, not in some of them")
    parser.add_argument("--shares", action="store_true", help="a share group in every seed; there is none otherwise")
    parser.add_argument("--faults", help="with --seed: only these of its faults, by their places: 0,3")
    parser.add_argument("--without", nargs="+", default=(), help="with --seed: leave out these clients and features")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1, help="how many seeds run at a time")
    parser.add_argument("--show", type=int, default=3, help="how many failing seeds to explain (default: 3)")
    parser.add_argument("--no-shorten", dest="shorten", action="store_false", help="explain without shortening")
    parser.add_argument("--format", choices=("text", "json"), default="text")
    return parser.parse_args(arguments)


def _run_all(options: argparse.Namespace) -> Iterator[Report]:
    if options.seed is not None:
        schedule = None
        if options.faults is not None:
            drawn = draw_schedule(options.seed, FAULT_SECONDS, FAULTS_PER_SEED)
            schedule = [drawn[int(place)] for place in options.faults.split(",") if place]
        yield run_seed(
            options.seed,
            options.brokers,
            schedule,
            has_delayed=options.delayed,
            has_shares=options.shares,
            without=options.without,
        )
        return
    seeds = _seeds(options)
    if options.processes == 1:
        for seed in seeds:
            yield run_seed(seed, options.brokers, has_delayed=options.delayed, has_shares=options.shares)
        return
    with ProcessPoolExecutor(options.processes, initializer=warm_up) as pool:
        running: set[Future[Report]] = set()
        while True:
            room = 2 * options.processes - len(running)
            running.update(
                pool.submit(run_seed, seed, options.brokers, has_delayed=options.delayed, has_shares=options.shares)
                for seed in islice(seeds, room)
            )
            if not running:
                return
            done, running = wait(running, return_when=FIRST_COMPLETED)
            for future in done:
                yield future.result()


def _seeds(options: argparse.Namespace) -> Iterator[int]:
    if options.minutes is None:
        yield from range(options.first_seed, options.first_seed + options.seeds)
        return
    ends_at = time.monotonic() + options.minutes * 60
    for seed in count(options.first_seed):
        if time.monotonic() >= ends_at:
            return
        yield seed


def _progress(reports: Iterator[Report], options: argparse.Namespace) -> Iterator[Report]:
    """Show how far it is: all the time on a terminal, now and then in a file. A seed that fails is named at once."""
    is_terminal = sys.stderr.isatty()
    before, after = ("\r", "") if is_terminal else ("", "\n")
    total = "" if options.minutes is not None else f" of {options.seeds if options.seed is None else 1}"
    failed = 0
    for number, report in enumerate(reports, 1):
        if report.failed:
            failed += 1
            print(f"{before}seed {report.seed} fails: {report.anomalies[0]}", file=sys.stderr)
            print(f"  replay it: {replay_command(report, options.brokers)}", file=sys.stderr, flush=True)
        if is_terminal or number % _PROGRESS_SEEDS == 0:
            print(f"{before}{number}{total} seeds, {failed} failed", end=after, file=sys.stderr, flush=True)
        yield report
    if is_terminal:
        print(file=sys.stderr)


def _print_summary(reports: list[Report], options: argparse.Namespace) -> None:
    faults = Counter[str](dict.fromkeys((*FAULTS, *FAILOVERS, *STEPS), 0))
    counts = Counter[str](dict.fromkeys(_WORK, 0))
    for report in reports:
        faults.update(report.faults)
        counts.update(report.counts)
    states = Counter[str](dict.fromkeys(EXPECTED_STATES, 0))
    seeds_of = Counter[str]()
    for report in reports:
        states.update(report.states)
        seeds_of.update(report.states.keys())
    totals = {
        "seeds": len(reports),
        "failed": sum(report.failed for report in reports),
        "virtual seconds": round(sum(report.virtual_seconds for report in reports)),
        "processor seconds": round(sum(report.processor_seconds for report in reports), 1),
        "events": sum(report.events for report in reports),
    }
    if options.format == "json":
        failing = {report.seed: report.anomalies for report in reports if report.failed}
        print(json.dumps({**totals, "faults": faults, "counts": counts, "states": states, "failing seeds": failing}))
        return
    for title, rows in (("", totals), ("faults that happened", faults), ("what was done", counts)):
        print(f"\n{title}" if title else "")
        for name, number in sorted(rows.items()) if title else rows.items():
            print(f"  {name:<44} {number:>12,}")
    _print_states(states, seeds_of)


def _print_states(states: Counter[str], seeds_of: Counter[str]) -> None:
    """How often, and in how many seeds, each state of the protocol was reached; those that never were at the end."""
    print(f"\n{'states of the protocol':<78} {'times':>9} {'seeds':>6}")
    for name, number in sorted(states.items()):
        if number:
            print(f"  {name:<76} {number:>9,} {seeds_of[name]:>6,}")
    never = sorted(name for name, number in states.items() if not number)
    if never:
        print("\nnever reached")
        for name in never:
            print(f"  {name}")


def _print_failure(report: Report, brokers: int) -> None:
    print(f"\nseed {report.seed} fails:")
    for anomaly in report.anomalies[:10]:
        print(f"  {anomaly}")
    print(f"\n  replay it: {replay_command(report, brokers)}")
    print("\n  faults that it takes:")
    for fault in report.schedule:
        print(f"    {fault}")
    print(f"\n  clients and features that it takes: {', '.join(report.features) or 'those of every seed'}")
    print("\n  what happened last:")
    for line in report.story:
        print(f"    {line}")


def replay_command(report: Report, brokers: int) -> str:
    """What runs a seed again as it was, shortened or not."""
    command = f"python -m tidelog.testing.simulation --seed {report.seed} --brokers {brokers}"
    if report.has_delayed:
        command += " --delayed"
    if report.has_shares:
        command += " --shares"
    drawn = draw_schedule(report.seed, FAULT_SECONDS, FAULTS_PER_SEED)
    if len(report.schedule) < len(drawn):
        command += " --faults " + ",".join(str(place) for place, fault in enumerate(drawn) if fault in report.schedule)
    if report.without:
        command += " --without " + " ".join(map(shlex.quote, sorted(report.without)))
    return command


if __name__ == "__main__":
    sys.exit(main())
