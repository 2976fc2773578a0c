"""`ssl.principal.mapping.rules`: from a certificate's distinguished name to the name of a user (KIP-371).

    RULE:^CN=(.*?),OU=Services.*$/$1/L, DEFAULT

Rules are tried in order; the first whose pattern matches the whole name decides. `DEFAULT` keeps the name as it is.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from tidelog.config.errors import ConfigError

SETTING: Final = "ssl.principal.mapping.rules"
_DEFAULT: Final = "DEFAULT"
_RULE: Final = re.compile(r"RULE:((?:\\.|[^\\/])*)/((?:\\.|[^\\/])*)/([LU]?)")
_REFERENCE: Final = re.compile(r"\\(.)|\$(\d+)")
_CASES: Final[Mapping[str, Callable[[str], str]]] = {"L": str.lower, "U": str.upper, "": str}


@dataclass(frozen=True, slots=True)
class _Rule:
    pattern: re.Pattern[str]
    replacement: str
    case: str

    def apply(self, name: str) -> str | None:
        if self.pattern.fullmatch(name) is None:
            return None
        return _CASES[self.case](self.pattern.sub(self._expand, name))

    def _expand(self, match: re.Match[str]) -> str:
        def expand(reference: re.Match[str]) -> str:
            escaped, digits = reference.groups()
            if escaped is not None:
                return str(escaped)
            number = int(digits)
            # Kafka leaves a reference to a group that the pattern does not have as it is.
            return reference[0] if number > self.pattern.groups else match[number] or ""

        return _REFERENCE.sub(expand, self.replacement)


class PrincipalMapping:
    """The rules of one listener."""

    __slots__ = ("_rules",)

    def __init__(self, text: str = _DEFAULT) -> None:
        """Raises ConfigError for rules that cannot be read."""
        self._rules = _parse(text)

    def user_of(self, distinguished_name: str) -> str | None:
        """The user's name; None if no rule applies, and the client is then rejected."""
        for rule in self._rules:
            mapped = distinguished_name if rule is None else rule.apply(distinguished_name)
            if mapped is not None:
                return mapped
        return None


def _parse(text: str) -> tuple[_Rule | None, ...]:
    """The rules in order; None is DEFAULT. Kafka takes an empty text for DEFAULT."""
    rules: list[_Rule | None] = []
    rest = text.strip()
    while rest:
        if rest.startswith(_DEFAULT):
            rules.append(None)
            end = len(_DEFAULT)
        else:
            match = _RULE.match(rest)
            if match is None:
                raise ConfigError(f"{SETTING}: {rest!r} does not begin with RULE:pattern/replacement/", setting=SETTING)
            rules.append(_Rule(_compile(match[1]), match[2].strip(), match[3]))
            end = match.end()
        rest = rest[end:].lstrip()
        if rest:
            if not rest.startswith(","):
                raise ConfigError(f"{SETTING}: expected a comma before {rest!r}", setting=SETTING)
            rest = rest[1:].lstrip()
    return tuple(rules) or (None,)


def _compile(pattern: str) -> re.Pattern[str]:
    try:
        return re.compile(pattern.strip())
    except (re.error, OverflowError, RecursionError) as error:
        raise ConfigError(f"{SETTING}: {pattern!r} is not a regular expression: {error}", setting=SETTING) from error
