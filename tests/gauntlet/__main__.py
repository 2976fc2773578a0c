"""`make gauntlet`: plants one mistake after the other and prints what has found it.

The seed that `results.json` names is tried first; `--from-zero` counts seeds from 0 on instead. `--keep` writes what is
found into that file and into RESULTS.md beside it.

The exit code is the number of mistakes that neither the simulator nor a unit or property test has found.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial

from tests.gauntlet.mistakes import MISTAKES
from tests.gauntlet.planting import Mistake
from tests.gauntlet.search import RESULTS, SEEDS_MAX, Found, kept_results, search_seeds, search_tests
from tidelog.testing.simulation.run import warm_up


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parse(arguments)
    if os.environ.get("PYTHONHASHSEED") != "0":
        # The order of sets of strings must be the same in every run of a seed.
        os.environ["PYTHONHASHSEED"] = "0"
        os.execv(sys.executable, [sys.executable, "-m", "tests.gauntlet", *(arguments or sys.argv[1:])])
    kept = kept_results()
    chosen = [each for each in MISTAKES if any(word in f"{each.area} {each.name}" for word in options.only or [""])]
    if options.list:
        for entry in chosen:
            print(f"{entry.area:<12} {entry.name}{f' ({entry.known})' if entry.known else ''}")
        return 0
    firsts = {} if options.from_zero else {name: each.seed for name, each in kept.items()}
    look = partial(_look, seeds_max=options.seeds, has_tests=not options.no_tests, firsts=firsts)
    results = list(_show(chosen, _looked(chosen, look, options.processes)))
    found = dict(zip((entry.name for entry in chosen), results, strict=True))
    if options.keep:
        keep({name: _merged(each, kept.get(name), options) for name, each in found.items()}, kept)
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
    parser.add_argument("--from-zero", action="store_true", help="try seeds from 0 on, not the one that is kept first")
    parser.add_argument("--keep", action="store_true", help="write what is found into results.json and RESULTS.md")
    return parser.parse_args(arguments)


def _look(entry: Mistake, seeds_max: int, has_tests: bool, firsts: Mapping[str, int | None]) -> Found:
    found = search_seeds(entry, seeds_max, first=firsts.get(entry.name)) if seeds_max else Found()
    return found._replace(test=search_tests(entry) if has_tests else None)


def _merged(found: Found, before: Found | None, options: argparse.Namespace) -> Found:
    """What is kept: of a search without tests the test that was found before, without seeds the seed."""
    if before is None:
        return found
    if not options.seeds:
        found = found._replace(seed=before.seed, tried=before.tried, anomaly=before.anomaly)
    return found._replace(test=before.test) if options.no_tests else found


def keep(found: Mapping[str, Found], before: Mapping[str, Found]) -> None:
    """Write what has been found, with what was before of other mistakes, and the table."""
    results = {**before, **found}
    results = {entry.name: results[entry.name] for entry in MISTAKES if entry.name in results}
    kept = {name: each._asdict() for name, each in results.items()}
    RESULTS.write_text(json.dumps(kept, indent=1) + "\n")
    RESULTS.with_name("RESULTS.md").write_text("\n".join(table(results)) + "\n")


def table(results: Mapping[str, Found]) -> Iterator[str]:
    """The table as a page."""
    by_seeds = sum(each.seed is not None for each in results.values())
    by_tests = sum(each.test is not None for each in results.values())
    yield "# What finds the planted mistakes"
    yield ""
    yield f"`make gauntlet KEEP=1` writes this page. The simulator finds {by_seeds} of {len(results)} mistakes"
    yield f"within {SEEDS_MAX} seeds, unit and property tests find {by_tests}. *Seed* is one that finds it, *tried* how"
    yield "many were run until then: not from 0 on, but those first whose schedules reach the place."
    yield ""
    yield "| area | mistake | known as | seed | tried | what the seed says | test |"
    yield "|---|---|---|---|---|---|---|"
    for entry in MISTAKES:
        each = results.get(entry.name)
        if each is not None:
            seed = "-" if each.seed is None else str(each.seed)
            kind = each.anomaly.partition(":")[0].replace("|", " ")
            said = "" if each.seed is None else "not within its time" if kind.startswith("seed ") else kind
            test = "" if each.test is None else f"`{each.test.removeprefix('tests/')}`"
            yield f"| {entry.area} | {entry.name} | {entry.known} | {seed} | {each.tried} | {said} | {test} |"


def _looked(chosen: list[Mistake], look: Callable[[Mistake], Found], processes: int) -> Iterator[Found]:
    with ProcessPoolExecutor(processes, initializer=warm_up) as pool:
        yield from pool.map(look, chosen)


def _show(chosen: list[Mistake], results: Iterator[Found]) -> Iterator[Found]:
    width = max((len(entry.name) for entry in chosen), default=0)
    print(f"{'mistake':<{width}}  {'seed':>5} {'tried':>6}  found by")
    for entry, found in zip(chosen, results, strict=True):
        seed = "-" if found.seed is None else str(found.seed)
        print(f"{entry.name:<{width}}  {seed:>5} {found.tried:>6}  {found.test or '-'}", flush=True)
        if found.anomaly:
            print(f"{'':<{width}}  {'':>5} {'':>6}  {found.anomaly[:150]}", flush=True)
        yield found


def _print_totals(results: list[Found]) -> int:
    by_seeds = sum(found.seed is not None for found in results)
    by_tests = sum(found.test is not None for found in results)
    by_neither = sum(found.seed is None and found.test is None for found in results)
    print(f"\n{len(results)} mistakes: {by_seeds} found by the simulator, {by_tests} by unit and property tests,")
    print(f"{by_neither} by neither")
    return by_neither


if __name__ == "__main__":
    sys.exit(main())
