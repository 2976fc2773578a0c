"""The Python blocks of docs/testing.md, sorted by how a reader uses them.

A block that begins with `# name.py` is a file. One with tests or fixtures belongs into a test module, together with the
others of its section. The rest are scripts; where output that names a seed follows, the script fails with it.
"""

import re
from pathlib import Path
from typing import Final, NamedTuple

DOCUMENT: Final = Path(__file__).parents[2] / "docs" / "testing.md"
_BLOCK: Final = re.compile(r"^```python\n(.*?)^```\n(\n```\n(seed .*?)^```)?", re.MULTILINE | re.DOTALL)
_FILE: Final = re.compile(r"# (\w+\.py)\n")
_TEST: Final = re.compile(r"^(async )?def test_|^@pytest\.fixture", re.MULTILINE)


class Script(NamedTuple):
    """A block that is run as it is."""

    section: str
    code: str
    failure: str
    """The output that follows the block; empty if it ends well."""


def _sections() -> dict[str, str]:
    parts = re.split(r"^## (.*)\n", DOCUMENT.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


BLOCKS: Final = [
    (section, found[1], (found[3] or "").strip())
    for section, text in _sections().items()
    for found in _BLOCK.finditer(text)
]
FILES: Final = {named[1]: code for _, code, _ in BLOCKS if (named := _FILE.match(code))}
SCRIPTS: Final = [Script(*block) for block in BLOCKS if not _TEST.search(block[1]) and not _FILE.match(block[1])]


def modules() -> dict[str, str]:
    """The test modules: one for each section that has tests or fixtures."""
    found: dict[str, str] = {}
    for section, code, _ in BLOCKS:
        if _TEST.search(code):
            found[section] = found.get(section, "") + "\n\n" + code
    return found
