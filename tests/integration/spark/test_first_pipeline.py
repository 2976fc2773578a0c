"""The section "Your first pipeline" of docs/pipelines.md, word for word: files written, commands run, outputs compared.

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
from tidelog.testing import Broker

pytestmark = [pytest.mark.spark, pytest.mark.long, pytest.mark.timeout(900)]

PAGE = Path(__file__).parents[3] / "docs" / "pipelines.md"
REGISTRY = "http://localhost:8081"


def section(title: str) -> list[tuple[str, str]]:
    """The code blocks of a section, each with its language."""
    text = PAGE.read_text(encoding="utf-8")
    part = re.search(rf"^## {re.escape(title)}\n(.*?)(?=^## )", text, re.MULTILINE | re.DOTALL)
    assert part is not None
    return re.findall(r"```(\w+)\n(.*?)```", part[1], re.DOTALL)


def test_the_page_does_what_it_says(broker: Broker, tmp_path: Path) -> None:
    blocks = section("Your first pipeline")
    with real_registry(broker.bootstrap_servers) as url:
        printed = ""
        for language, block in blocks:
            if language == "python":
                _write(tmp_path, block.replace(REGISTRY, url))
            elif language == "sh":
                printed = "".join(_run(line, tmp_path, broker) for line in block.splitlines())
            else:
                pattern = re.escape(block.strip()).replace("…", ".*")
                assert re.fullmatch(pattern, printed.strip(), re.DOTALL), printed
    assert [language for language, _ in blocks].count("text") == 3


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
