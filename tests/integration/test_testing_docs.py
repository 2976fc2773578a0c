"""Every Python block of docs/testing.md works as it stands. Those of pipelines run in `spark/test_testing_docs.py`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.integration.testing_docs import BLOCKS, DOCUMENT, FILES, SCRIPTS, Script, modules
from tests.integration.zookeeper_support import needs_zookeeper
from tidelog.testing.simulation.simulation import SimulationFailed

SPARK = "Pipelines"
MODULES = {section: code for section, code in modules().items() if section != SPARK}


def test_every_block_is_a_file_a_test_module_or_a_script() -> None:
    assert len(BLOCKS) >= 12
    assert len(SCRIPTS) >= 6
    assert sum(bool(script.failure) for script in SCRIPTS) == 1
    assert {"In pytest", "A simulated cluster", SPARK} <= modules().keys()
    assert list(FILES) == ["orders.py"]


@pytest.mark.parametrize("section", MODULES)
def test_the_tests_of_a_section_pass_in_one_module(section: str, tmp_path: Path) -> None:
    """Run by a pytest of their own, which finds the fixtures as a reader's does."""
    code = MODULES[section]
    if "def broker()" in code:
        code += "\n\ndef test_of_a_shared_broker(broker):\n    assert broker.is_running\n"
    (tmp_path / "test_page.py").write_text(code)
    words = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", str(tmp_path), str(tmp_path)]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr


def _parameter(script: Script) -> object:
    marks = needs_zookeeper if "ZooKeeperServer" in script.code else ()
    return pytest.param(script, id=f"{script.section} {SCRIPTS.index(script)}", marks=marks)


@pytest.mark.parametrize("script", [*map(_parameter, SCRIPTS)])
def test_a_script_does_what_the_page_says(script: Script) -> None:
    code = compile(script.code, str(DOCUMENT), "exec")
    if not script.failure:
        exec(code, {"__name__": "page"})
        return
    with pytest.raises(SimulationFailed) as failed:
        exec(code, {"__name__": "page"})
    assert str(failed.value).splitlines()[0] == script.failure.splitlines()[0]
