"""Puts pages that lie outside `docs/` into the site, and points links at where their targets are there.

In the repository a link is relative to its file, so that it works where the file is read; in the site it is relative to
the page. A link to a file that is in the repository and not in the site becomes its name; a link to nothing fails the
build.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import TYPE_CHECKING, Final

from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.pages import Page

ROOT: Final = Path(__file__).parents[2]
OUTSIDE: Final = {
    "README.md": "index.md",
    "ARCHITECTURE.md": "architecture.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "SECURITY.md": "reporting.md",
    "benchmarks/README.md": "benchmarks/index.md",
    "benchmarks/RESULTS.md": "benchmarks/results.md",
    "benchmarks/HOSTILE.md": "benchmarks/hostile.md",
}
"""Files of the repository that are pages, by where they are in the site. `docs/NAME.md` is `NAME.md` there."""
_SOURCES: Final = {page: source for source, page in OUTSIDE.items()}
_LINK: Final = re.compile(r"(!?)\[([^\]\n]*)\]\(([^)\s]+)\)")
_ELSEWHERE: Final = re.compile(r"[a-z]+:|#|/")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages from outside."""
    for source, page in OUTSIDE.items():
        files.append(File.generated(config, page, content=(ROOT / source).read_text(encoding="utf-8")))
    return files


def on_page_markdown(markdown: str, page: Page, files: Files, **_: object) -> str:
    """Rewrite the links of a page."""
    here = page.file.src_uri
    source = _SOURCES.get(here, f"docs/{here}")
    return _LINK.sub(lambda found: _rewritten(found, source, here, files), markdown)


def _rewritten(found: re.Match[str], source: str, here: str, files: Files) -> str:
    mark, text, target = found.groups()
    if _ELSEWHERE.match(target):
        return found[0]
    path, _, fragment = target.partition("#")
    wanted = posixpath.normpath(posixpath.join(posixpath.dirname(source), path))
    page = OUTSIDE.get(wanted, wanted.removeprefix("docs/"))
    if files.get_file_from_path(page) is not None:
        there = posixpath.relpath(page, posixpath.dirname(here) or ".")
        return f"{mark}[{text}]({there}{'#' * bool(fragment)}{fragment})"
    if not (ROOT / wanted).exists():
        raise PluginError(f"{source} links to {target}, which does not exist")
    return text if text else f"`{wanted}`"
