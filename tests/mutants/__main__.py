"""`make mutants`: changes one operator, constant or condition of a core at a time, and runs the tests of its room.

The changes are drawn from those that Cosmic Ray can make. The sources are copied, and the copy is changed: a run
disturbs nobody. A change that no test notices is printed with its line. Some of these change nothing that anybody could
see, so a score of 100 % is not the aim; what is printed is read.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

ROOMS: Final[dict[str, tuple[str, ...]]] = {
    "replication": ("tests/unit/replication", "tests/property/replication"),
    "controller": ("tests/unit/controller", "tests/property/controller"),
    "coordination": ("tests/unit/coordination", "tests/unit/groups", "tests/unit/transactions"),
    "groups": ("tests/unit/groups", "tests/property/groups"),
    "sharing": ("tests/unit/sharing", "tests/unit/groups"),
    "transactions": ("tests/unit/transactions", "tests/property/transactions"),
}
"""The cores, and where the tests are that must notice a change in them."""

OPERATORS: Final = (
    "core/AddNot",
    "core/NumberReplacer",
    "core/ReplaceAndWithOr",
    "core/ReplaceBinaryOperator_Add_Sub",
    "core/ReplaceBinaryOperator_Sub_Add",
    "core/ReplaceBreakWithContinue",
    "core/ReplaceComparisonOperator_Eq_NotEq",
    "core/ReplaceComparisonOperator_Gt_GtE",
    "core/ReplaceComparisonOperator_GtE_Gt",
    "core/ReplaceComparisonOperator_Lt_LtE",
    "core/ReplaceComparisonOperator_LtE_Lt",
    "core/ReplaceComparisonOperator_NotEq_Eq",
    "core/ReplaceContinueWithBreak",
    "core/ReplaceFalseWithTrue",
    "core/ReplaceOrWithAnd",
    "core/ReplaceTrueWithFalse",
    "core/ReplaceUnaryOperator_Delete_Not",
    "core/ZeroIterationForLoop",
)
"""Those that make another decision. Others turn annotations and formats into errors, which any test notices."""

_SECONDS_MAX: Final = 300


class Mutant(NamedTuple):
    """One change of one file; the `occurrence`th place in it where the operator fits."""

    path: Path
    operator: str
    occurrence: int
    line: int

    def __str__(self) -> str:
        return f"{self.path}:{self.line} {self.operator.removeprefix('core/')}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Print a line for each room and each change that survived; the exit code is 0 if every room was checked."""
    options = _parse(arguments)
    with tempfile.TemporaryDirectory(prefix="tidelog-mutants-") as directory:
        sources = Path(directory, "src")
        shutil.copytree("src", sources, symlinks=False, ignore=shutil.ignore_patterns("__pycache__"))
        for room in options.room or ROOMS:
            if not _passes(room, sources):
                print(f"{room}: its tests fail without any change", file=sys.stderr)
                return 1
            chosen = _sample(room, options.sample, options.seed)
            survivors = list(_survivors(room, chosen, sources))
            share = (len(chosen) - len(survivors)) / max(len(chosen), 1)
            print(f"{room}: {len(chosen) - len(survivors)} of {len(chosen)} changes noticed ({share:.0%})", flush=True)
    return 0


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.mutants",
        description="Changes the pure cores at random and counts what their tests notice.",
        epilog="example: python -m tests.mutants --room groups --sample 20 --seed 7",
    )
    parser.add_argument("--room", action="append", choices=ROOMS, help="a room (default: all of them)")
    parser.add_argument("--sample", type=int, default=50, help="changes for each room (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="which changes (default: %(default)s)")
    return parser.parse_args(arguments)


def _sample(room: str, size: int, seed: int) -> list[Mutant]:
    from cosmic_ray.commands import init
    from cosmic_ray.work_db import WorkDB, use_db

    with use_db(":memory:", WorkDB.Mode.create) as work:
        init(sorted(Path("src/tidelog", room).rglob("*.py")), work, {})
        found = [
            Mutant(Path(each.module_path), each.operator_name, each.occurrence, each.start_pos[0])
            for item in work.work_items
            for each in item.mutations
            if each.operator_name in OPERATORS
        ]
    return random.Random(seed).sample(sorted(found), min(size, len(found)))


def _survivors(room: str, mutants: Sequence[Mutant], sources: Path) -> Iterator[Mutant]:
    for mutant in mutants:
        changed = sources.parent / mutant.path
        before = changed.read_text()
        changed.write_text(_mutated(mutant, before))
        try:
            if _passes(room, sources):
                print(f"  survives: {mutant}", flush=True)
                yield mutant
        finally:
            changed.write_text(before)


def _mutated(mutant: Mutant, code: str) -> str:
    from cosmic_ray.mutating import mutate_code
    from cosmic_ray.plugins import get_operator

    changed: str | None = mutate_code(code, get_operator(mutant.operator)(), mutant.occurrence)
    assert changed is not None, mutant
    return changed


def _passes(room: str, sources: Path) -> bool:
    command = [
        *(sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-m", "not long", "-n", "0"),
        *("-q", "-x", "--tb=no", "--no-header", *(each for each in ROOMS[room] if Path(each).is_dir())),
    ]
    environment = {**os.environ, "PYTHONPATH": str(sources), "PYTHONDONTWRITEBYTECODE": "1"}
    try:
        done = subprocess.run(command, env=environment, capture_output=True, timeout=_SECONDS_MAX)
    except subprocess.TimeoutExpired:
        return False  # a change that runs for ever is noticed
    return done.returncode == 0


if __name__ == "__main__":
    sys.exit(main())
