"""Snippets of a page below docs/pipelines/, word for word but for the texts that a test replaces."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

PAGES = Path(__file__).parents[3] / "docs" / "pipelines"


def snippet(page: str, section: str, replaced: Mapping[str, str], number: int = 0) -> str:
    """The Python of a section, with texts of it replaced, such as a path."""
    text = (PAGES / page).read_text(encoding="utf-8")
    part = re.search(rf"^## {re.escape(section)}\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)
    assert part is not None, f"docs/pipelines/{page} has no section {section!r}"
    code = re.findall(r"```python\n(.*?)```", part[1], re.DOTALL)[number]
    for old, new in replaced.items():
        assert old in code, f"{old!r} is not in the snippet"
        code = code.replace(old, new)
    return str(code)


def run_snippet(code: str, **names: Any) -> dict[str, Any]:
    """What the names of a snippet stand for once it has run."""
    exec(compile(code, "snippet", "exec"), names)
    return names
