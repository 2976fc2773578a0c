"""JAAS configuration as `sasl.jaas.config` holds it: one login module, a control flag, options.

    org.apache.kafka.common.security.plain.PlainLoginModule required username="alice" password="alice-secret";

Values may be quoted with " or ', with backslash escapes as in Java, or stand bare. Comments are those of Java.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from tidelog.config.errors import ConfigError

_FLAGS: Final = frozenset({"required", "requisite", "sufficient", "optional"})
_TOKEN: Final = re.compile(
    r"""(?P<space>\s+|//[^\n]*|/\*.*?\*/)
    |"(?P<double>(?:\\.|[^"\\])*)"
    |'(?P<single>(?:\\.|[^'\\])*)'
    |(?P<mark>[=;])
    |(?P<word>[^\s=;"']+)""",
    re.VERBOSE | re.DOTALL,
)
_ESCAPES: Final = {"n": "\n", "r": "\r", "t": "\t", "b": "\b", "f": "\f"}


@dataclass(frozen=True, slots=True)
class JaasEntry:
    """One login module. `repr` leaves the options out: they are secrets."""

    module: str
    options: Mapping[str, str] = field(repr=False)

    @property
    def module_name(self) -> str:
        """The class without its package."""
        return self.module.rpartition(".")[2]


def parse_jaas(text: str, setting: str = "sasl.jaas.config") -> JaasEntry:
    """The one entry of `text`. Raises ConfigError, which shows nothing of the text."""
    tokens = list(_tokens(text, setting))
    if len(tokens) < 3 or tokens[0][0] != "word":
        raise _malformed(setting, "expected a login module, a flag such as required, and options")
    module, flag = tokens[0][1], tokens[1][1].lower()
    if flag not in _FLAGS:
        raise _malformed(setting, "the word after the login module is not required, requisite, sufficient or optional")
    options: dict[str, str] = {}
    position = 2
    while tokens[position][1:] != (";", True):
        name, equals, value = _three(tokens, position, setting)
        if equals != ("mark", "=", True) or name[0] == "mark" or value[0] == "mark":
            raise _malformed(setting, "options have the form name=value")
        options[name[1]] = value[1]
        position += 3
        if position >= len(tokens):
            raise _malformed(setting, "the entry does not end with a semicolon")
    if position != len(tokens) - 1:
        raise _malformed(setting, "it must contain one login module")
    return JaasEntry(module, options)


_Token = tuple[str, str, bool]
"""Kind, text, and whether it is punctuation."""


def _three(tokens: list[_Token], position: int, setting: str) -> tuple[_Token, _Token, _Token]:
    if position + 3 > len(tokens):
        raise _malformed(setting, "the entry does not end with a semicolon")
    return tokens[position], tokens[position + 1], tokens[position + 2]


def _tokens(text: str, setting: str) -> Iterator[_Token]:
    position = 0
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            raise _malformed(setting, "a quoted value does not end")
        position = match.end()
        kind = match.lastgroup
        assert kind is not None, "one group matches"
        if kind in ("double", "single"):
            yield "value", _unescaped(match[kind]), False
        elif kind != "space":
            yield kind, match[kind], kind == "mark"


def _unescaped(text: str) -> str:
    return re.sub(r"\\(.)", lambda match: _ESCAPES.get(match[1], match[1]), text, flags=re.DOTALL)


def _malformed(setting: str, why: str) -> ConfigError:
    return ConfigError(f"{setting} is not a JAAS configuration: {why}", setting=setting)
