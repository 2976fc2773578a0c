"""Every block of Python in docs/pipelines.md and docs/pipelines/: run, planned by Spark, or at least checked.

`RUN` names the sections whose pipelines other tests run against a broker. Every other pipeline is planned. A block that
shows a part of a definition is put into a pipeline and checked.
"""

import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.integration.spark.pipeline_pages import PAGES, Block, blocks
from tidelog.spark.pipeline import Pipeline, topic
from tidelog.spark.pipeline.checks.definition import check
from tidelog.spark.pipeline.running.rehearsal import plan_problems

pytestmark = [pytest.mark.spark, pytest.mark.long, pytest.mark.timeout(300)]

RUN = {
    "A topic as a table",
    "From Avro to Iceberg",
    "Schemas",
    "Tables that change",
}
"""They need a registry, files or a table, which `test_first_pipeline`, `test_pipeline_docs` and `test_table_command`
have."""

PYTHON = [block for page in PAGES for block in blocks(page) if block.language == "python"]
PRELUDE = """
import pyarrow
from pyspark.sql import DataFrame, functions as F
from tidelog.spark.pipeline import *
"""


@pytest.fixture
def module(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The module of a block, in which `orders` is a pipeline of the page, as for a file among transformations."""
    made = ModuleType("page")
    monkeypatch.setitem(sys.modules, "page", made)
    return made


def names_of(block: Block, module: ModuleType) -> dict[str, Any]:
    exec(compile(PRELUDE + block.code, str(block), "exec"), module.__dict__)
    return vars(module)


@pytest.mark.parametrize("block", [each for each in PYTHON if each.section not in RUN], ids=str)
def test_a_block_of_python_is_a_pipeline_that_can_run_or_a_part_of_one(
    block: Block, module: ModuleType, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    if "declare(pipeline)" in block.code:
        pytest.skip("run by test_pipeline_declarative")
    names = names_of(block, module)
    tests = [each for name, each in names.items() if name.startswith("test_")]
    if tests:
        monkeypatch.setattr("tidelog.testing.pipelines.session", lambda: spark)
        for test in tests:
            test()
        return
    pipeline = names.get("pipeline")
    if pipeline is not None:
        assert [str(each) for each in check(pipeline)] == []
        assert [str(each) for each in plan_problems(pipeline, spark)] == []
        return
    parts: dict[str, Any] = {"source": topic("a"), "sink": topic("b")}
    parts.update({name: names[name] for name in ("source", "steps", "sink", "on_failure") if name in names})
    made = Pipeline("part", **parts)
    missing = ("No such file", "does not exist", "needs the library")
    assert [str(each) for each in check(made) if not any(text in each.message for text in missing)] == []


def test_every_section_that_is_run_elsewhere_is_there() -> None:
    assert {block.section for block in PYTHON} >= RUN
