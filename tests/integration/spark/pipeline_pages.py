"""The pages about pipelines, docs/pipelines.md and those beside it, as sections with their blocks of code."""

import re
from pathlib import Path
from typing import NamedTuple

DOCS = Path(__file__).parents[3] / "docs"
PAGES = [DOCS / "pipelines.md", *sorted((DOCS / "pipelines").glob("*.md"))]

_HEADING = re.compile(r"#+ (.*)")
_FENCE = re.compile(r"```(\w*)")


class Block(NamedTuple):
    """A block of code. `section` is the heading above it."""

    page: Path
    section: str
    language: str
    code: str

    def __str__(self) -> str:
        return f"{self.page.stem}: {self.section}"


def blocks(page: Path) -> list[Block]:
    """The blocks of a page, in order."""
    found: list[Block] = []
    section, language = "", None
    lines: list[str] = []
    for line in page.read_text(encoding="utf-8").splitlines(keepends=True):
        fence, heading = _FENCE.match(line), _HEADING.match(line)
        if language is None and fence is not None:
            language, lines = fence[1], []
        elif language is None:
            section = heading[1] if heading is not None else section
        elif line.startswith("```"):
            found.append(Block(page, section, language, "".join(lines)))
            language = None
        else:
            lines.append(line)
    return found


def blocks_of(section: str) -> list[Block]:
    """The blocks of the one section of this name, on whichever page it is."""
    found = [block for page in PAGES for block in blocks(page) if block.section == section]
    assert found, f"no page about pipelines has a section {section!r} with code"
    assert len({block.page for block in found}) == 1, f"several pages have a section {section!r}"
    return found
