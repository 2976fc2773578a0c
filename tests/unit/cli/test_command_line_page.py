"""docs/command-line.md: each command of ours on the page is one that there is, with options that there are."""

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import typer

from tidelog.cli.app import build

PAGE = Path(__file__).parents[3] / "docs" / "command-line.md"
_IN_CELL = re.compile(r"^\|.*`((?:[^`|]|\\\|)*\btidelog [^`]*)` \|$", re.MULTILINE)
_IN_BLOCK = re.compile(r"^    (.*\btidelog .*)$", re.MULTILINE)


def commands() -> list[str]:
    """What is after each `tidelog`, up to a pipe, a redirection or a comment."""
    text = PAGE.read_text(encoding="utf-8")
    lines = [match.replace("\\|", "|") for match in _IN_CELL.findall(text)] + _IN_BLOCK.findall(text)
    found = []
    for line in lines:
        if "NOUN VERB" in line or "pip install" in line:
            continue
        for part in re.split(r" \| ", line):
            match = re.search(r"tidelog (.*)$", re.sub(r"\s+# .*$", "", part))
            if match is not None:
                found.append(re.split(r" [<>] |\)\"", match[1])[0].strip())
    return sorted({*found})


APPLICATION: Any = typer.main.get_command(build())


def test_the_page_has_commands():
    assert len(commands()) > 80


@pytest.mark.parametrize("words", commands())
def test_a_command_of_the_page_is_understood(words):
    command, left, path = APPLICATION, shlex.split(words), []
    while hasattr(command, "commands") and left and not left[0].startswith("-"):
        path.append(left[0])
        assert left[0] in command.commands, f"there is no {' '.join(path)}"
        command = command.commands[left.pop(0)]
    if path and path != ["serve"] and "--help" not in left:
        command.make_context(" ".join(path), left)
