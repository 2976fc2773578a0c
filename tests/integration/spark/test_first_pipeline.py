"""The page docs/pipelines/first-pipeline.md, word for word: files written, commands run, outputs compared.

Only the registry's address is another. Commands run with this environment's programs, so `pip install` finds everything
installed, or fails where an extra is missing.
"""

import os
import re
import subprocess
import sysconfig
from pathlib import Path

import pytest

from tests.integration.real_registry import real_registry
from tests.integration.spark.pipeline_pages import blocks_of
from tidelog.testing import Broker

pytestmark = [pytest.mark.spark, pytest.mark.long, pytest.mark.timeout(900)]

REGISTRY = "http://localhost:8081"


def test_a_new_pipeline_and_its_test_run_as_they_are_written(broker: Broker, tmp_path: Path) -> None:
    """All but `--watch`, which does not end; `test_pipeline_new` has it."""
    assert _run_all("Your first pipeline", tmp_path, broker, "") == 1


def test_the_page_does_what_it_says(broker: Broker, tmp_path: Path) -> None:
    with real_registry(broker.bootstrap_servers) as url:
        assert _run_all("From Avro to Iceberg", tmp_path, broker, url) == 3


def _run_all(section: str, directory: Path, broker: Broker, registry: str) -> int:
    """Run the commands of a section. Returns how many outputs were compared."""
    printed, compared = "", 0
    for _, _, language, block in blocks_of(section):
        if language == "python":
            _write(directory, block.replace(REGISTRY, registry))
        elif language == "sh":
            printed = "".join(_run(line, directory, broker) for line in block.splitlines() if "--watch" not in line)
        else:
            pattern = re.escape(block.strip()).replace("…", ".*")
            assert re.fullmatch(pattern, printed.strip(), re.DOTALL), printed
            compared += 1
    return compared


def _write(directory: Path, code: str) -> None:
    """A whole file, named by its first line, or a line that replaces the one of the same variable."""
    named = re.match(r"# (\w+\.py)\n", code)
    if named is not None:
        (directory / named[1]).write_text(code, encoding="utf-8")
        return
    name = code.partition(" = ")[0]
    file = directory / "orders.py"
    changed, count = re.subn(rf"^{name} = .*\n", code, file.read_text(encoding="utf-8"), flags=re.MULTILINE)
    assert count == 1
    file.write_text(changed, encoding="utf-8")


def _run(line: str, directory: Path, broker: Broker) -> str:
    programs = sysconfig.get_path("scripts")
    environment = {
        **os.environ,
        "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
        "TIDELOG_BOOTSTRAP_SERVERS": broker.bootstrap_servers,
        "PYTHONWARNINGS": "ignore",
    }
    done = subprocess.run(
        ["bash", "-c", line],
        cwd=directory,
        env=environment,
        capture_output=True,
        text=True,
        errors="replace",
        timeout=400,
        check=False,
    )
    assert done.returncode == 0, f"{line}\n{done.stdout}\n{done.stderr}"
    return done.stdout if not line.startswith("pip ") else ""
