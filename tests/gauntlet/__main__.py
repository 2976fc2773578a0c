"""`make gauntlet`: plants one mistake after the other and prints what has found it.

The exit code is the number of mistakes that neither the simulator nor a unit or property test has found.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial

from tests.gauntlet.mistakes import MISTAKES
from tests.gauntlet.planting import Mistake
from tests.gauntlet.search import SEEDS_MAX, Found, search_seeds, search_tests
from tidelog.testing.simulation.run import warm_up


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parse(arguments)
    if os.environ.get("PYTHONHASHSEED") != "0":
        # The order of sets of strings must be the same in every run of a seed.
        os.environ["PYTHONHASHSEED"] = "0"
        os.execv(sys.executable, [sys.executable, "-m", "tests.gauntlet", *(arguments or sys.argv[1:])])
    chosen = [each for each in MISTAKES if any(word in f"{each.area} {each.name}" for word in options.only or [""])]
    if options.list:
        for entry in chosen:
            print(f"{entry.area:<12} {entry.name}{f' ({entry.known})' if entry.known else ''}")
        return 0
    look = partial(_look, seeds_max=options.seeds, has_tests=not options.no_tests)
    results = list(_show(chosen, _looked(chosen, look, options.processes)))
    found = dict(zip((entry.name for entry in chosen), results, strict=True))
    if options.json is not None:
        with open(options.json, "w") as file:
            json.dump({name: each._asdict() for name, each in found.items()}, file, indent=1)
    return _print_totals(results)


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.gauntlet",
        description="Plants known mistakes and shows whether the simulator and the tests find them.",
        epilog='example: python -m tests.gauntlet --only replication "old generation"',
    )
    parser.add_argument("--only", nargs="+", help="mistakes whose area or name has one of these words")
    parser.add_argument("--seeds", type=int, default=SEEDS_MAX, help="seeds for each mistake (default: %(default)s)")
    parser.add_argument("--no-tests", action="store_true", help="the simulator alone")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1, help="how many mistakes at a time")
    parser.add_argument("--list", action="store_true", help="print what is planted, and plant nothing")
    parser.add_argument("--json", help="also write the table to this file")
    return parser.parse_args(arguments)


def _look(entry: Mistake, seeds_max: int, has_tests: bool) -> Found:
    return Found(*search_seeds(entry, seeds_max), search_tests(entry) if has_tests else None)


def _looked(chosen: list[Mistake], look: Callable[[Mistake], Found], processes: int) -> Iterator[Found]:
    with ProcessPoolExecutor(processes, initializer=warm_up) as pool:
        yield from pool.map(look, chosen)


def _show(chosen: list[Mistake], results: Iterator[Found]) -> Iterator[Found]:
    width = max((len(entry.name) for entry in chosen), default=0)
    print(f"{'mistake':<{width}}  {'seeds':>6}  found by")
    for entry, found in zip(chosen, results, strict=True):
        seeds = "-" if found.seeds is None else str(found.seeds)
        print(f"{entry.name:<{width}}  {seeds:>6}  {found.test or '-'}", flush=True)
        if found.anomaly:
            print(f"{'':<{width}}  {'':>6}  {found.anomaly[:150]}", flush=True)
        yield found


def _print_totals(results: list[Found]) -> int:
    by_seeds = sum(found.seeds is not None for found in results)
    by_tests = sum(found.test is not None for found in results)
    by_neither = sum(found.seeds is None and found.test is None for found in results)
    print(f"\n{len(results)} mistakes: {by_seeds} found by the simulator, {by_tests} by unit and property tests,")
    print(f"{by_neither} by neither")
    return by_neither


if __name__ == "__main__":
    sys.exit(main())
