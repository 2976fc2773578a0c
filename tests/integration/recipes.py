"""The programs of docs/recipes, as files to run: as they stand, but for addresses, paths and timeouts."""

import re
from collections.abc import Mapping
from pathlib import Path

PAGES = Path(__file__).parents[2] / "docs" / "recipes"
_COMMANDS = re.compile(r"^```sh\n(.*?)^```", re.DOTALL | re.MULTILINE)
_BLOCK = re.compile(r"^```python\n(.*?)^```", re.DOTALL | re.MULTILINE)


def programs(page: str, changes: Mapping[str, str]) -> list[str]:
    """The Python blocks of a page. Each change must apply to one of them at least."""
    blocks = _BLOCK.findall((PAGES / page).read_text(encoding="utf-8"))
    for old, new in changes.items():
        assert any(old in block for block in blocks), f"{page} does not have {old!r}"
        blocks = [block.replace(old, new) for block in blocks]
    return blocks


def commands(page: str) -> list[str]:
    """The shell commands of a page, line by line."""
    found = _COMMANDS.findall((PAGES / page).read_text(encoding="utf-8"))
    return [line for block in found for line in block.splitlines()]
