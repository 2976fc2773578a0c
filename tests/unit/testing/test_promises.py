"""docs/promises.md names tests for each of its promises, and these tests exist."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

PAGE = Path("docs/promises.md")
NAMED = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")
ROWS = [
    [cell.strip() for cell in line.strip().strip("|").split(" | ")]
    for line in PAGE.read_text().splitlines()
    if line.startswith("|") and not line.startswith(("| fault |", "|---"))
]


def functions_of(path: str) -> set[str]:
    tree = ast.parse(Path(path).read_text())
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_a_promise_is_shown_by_tests_that_exist(row: list[str]) -> None:
    assert len(row) == 3, "a fault, a promise, and the tests that show it"
    named = NAMED.findall(row[2])
    assert named, "a promise without a test is none"
    assert row[2].count("`") == 2 * len(named), "every test is named as path::function"
    for path, function in named:
        assert function in functions_of(path), f"{path} has no {function}"


def test_the_page_has_every_kind_of_fault() -> None:
    faults = " ".join(row[0] for row in ROWS)
    for kind in (
        "killed",
        "power",
        "torn",
        "network",
        "ZooKeeper",
        "controller",
        "zombie",
        "transaction",
        "disk",
        "clock",
    ):
        assert kind in faults, kind
