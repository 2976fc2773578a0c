"""Extracts the message of a failed query from Spark's error text. Pure."""

import re
from typing import Final

_TERMINATED: Final = re.compile(r"terminated with exception: ", re.ASCII)
_CLASS: Final = re.compile(r"^(?:[\w$]+\.)+([\w$]*(?:Error|Exception|Failed|Missing|Interrupt)[\w$]*): ?", re.ASCII)
_BRIDGE: Final = re.compile(r"An error occurred while calling [\w.]+$", re.ASCII)
"""What the bridge to Java puts before the error."""
_PYTHON_END: Final = re.compile(r"^(?:[A-Za-z_][\w.]*\.)?([A-Z]\w*): (.+)$", re.ASCII)
_USER_ERROR: Final = re.compile(r"\[USER_RAISED_EXCEPTION\] (.*?)(?: SQLSTATE: \w+)?$", re.MULTILINE)
_CHARACTERS_MAX: Final = 600


def in_a_sentence(error: BaseException | str) -> str:
    """The message of an error, without the prefix that names its location."""
    notes = [*getattr(error, "__notes__", ())]
    if not notes:
        return _sentence(error)
    is_plain = type(error).__module__ == "builtins"
    return ": ".join([*notes, *([type(error).__name__] if is_plain else []), _sentence(error)])


def _sentence(error: BaseException | str) -> str:
    text = str(error)
    raised = _USER_ERROR.search(text)
    if raised is not None:
        return _short(raised[1])
    python = _python_error(text)
    if python is not None:
        return _short(python)
    found = _TERMINATED.split(text, maxsplit=1)[-1].strip()
    lines = (line for line in found.splitlines() if line.strip() and not _BRIDGE.match(line))
    first = next(lines, type(error).__name__).removeprefix(": ")
    return _short(_CLASS.sub(r"\1: ", first))


def _python_error(text: str) -> str | None:
    """The last line of the last Python traceback in a text."""
    at = text.rfind("Traceback (most recent call last):")
    if at < 0:
        return None
    found = None
    for line in text[at:].splitlines()[1:]:
        if line.startswith((" ", "\t")) or not line.strip():
            if found is not None:
                break
            continue
        match = _PYTHON_END.match(line)
        if match is not None:
            found = f"{match[1]}: {match[2]}"
            break
    return found


def _short(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= _CHARACTERS_MAX else text[: _CHARACTERS_MAX - 1] + "…"
