"""`sasl.kerberos.principal.to.local.rules`: from a Kerberos principal to the name of a user, by Kafka's rules.

    RULE:[2:$1@$0](.*@EXAMPLE\\.COM)s/@.*//, DEFAULT

`[2:$1@$0]` builds a text from a principal with two components; the text must match the pattern in parentheses, and the
substitution turns it into the name. `DEFAULT` takes the first component of principals of the default realm. The first
rule that applies decides.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from tidelog.config.errors import ConfigError
from tidelog.security.errors import SaslRejected

SETTING: Final = "sasl.kerberos.principal.to.local.rules"
_DEFAULT: Final = "DEFAULT"
_RULE: Final = re.compile(
    r"RULE:\[(?P<count>\d+):(?P<format>[^\]]*)\](?:\((?P<match>[^)]*)\))?"
    r"(?:s/(?P<pattern>[^/]*)/(?P<replacement>[^/]*)/(?P<all>g)?)?/?(?P<case>[LU])?"
)
_NAME: Final = re.compile(r"([^/@]*)(?:/([^/@]*))?@([^/@]*)")
_PARAMETER: Final = re.compile(r"\$(\d+)")
_NOT_SIMPLE: Final = re.compile(r"[/@]")


@dataclass(frozen=True, slots=True)
class _Rule:
    text: str
    components: int
    format: str
    match: re.Pattern[str] | None
    pattern: re.Pattern[str] | None
    replacement: str
    count: int
    """Of substitutions; 0 for all."""
    case: str

    def apply(self, parts: Sequence[str]) -> str | None:
        """`parts` are the realm and the components."""
        if len(parts) - 1 != self.components:
            return None
        name = _PARAMETER.sub(lambda found: parts[int(found[1])], self.format)
        if self.match is not None and self.match.fullmatch(name) is None:
            return None
        if self.pattern is not None:
            name = self.pattern.sub(lambda found: _expanded(self.replacement, found), name, self.count)
        return name.lower() if self.case == "L" else name.upper() if self.case == "U" else name


class LocalNames:
    """The rules of one listener."""

    __slots__ = ("_default_realm", "_rules")

    def __init__(self, rules: Sequence[str], default_realm: str | None) -> None:
        """Raises ConfigError for rules that cannot be read. Kafka takes no rules for DEFAULT."""
        self._rules = [None if text == _DEFAULT else _parse(text) for text in rules] or [None]
        self._default_realm = default_realm

    def user_of(self, principal: str) -> str:
        """The user's name. Raises SaslRejected if no rule applies, and the client is then rejected."""
        match = _NAME.fullmatch(principal)
        if match is None:
            if "@" in principal:
                raise SaslRejected(f"Authentication failed: {principal!r} is not a Kerberos principal")
            return principal
        first, second, realm = match.groups()
        parts = (realm, first) if second is None else (realm, first, second)
        for rule in self._rules:
            by_default = first if realm == self._default_realm else None
            name = by_default if rule is None else rule.apply(parts)
            if name is None:
                continue
            if not name or _NOT_SIMPLE.search(name):
                break
            return name
        raise SaslRejected(f"Authentication failed: no rule of {SETTING} makes a user name of {principal!r}")


def _parse(text: str) -> _Rule:
    match = _RULE.fullmatch(text)
    if match is None:
        raise ConfigError(
            f"{SETTING}: {text!r} is not DEFAULT or RULE:[n:string](regexp)s/pattern/replacement/", setting=SETTING
        )
    components = int(match["count"])
    if any(int(number) > components for number in _PARAMETER.findall(match["format"])):
        raise ConfigError(f"{SETTING}: {text!r} names a component beyond {components}", setting=SETTING)
    return _Rule(
        text,
        components,
        match["format"],
        _compile(match["match"], text),
        _compile(match["pattern"], text),
        match["replacement"] or "",
        0 if match["all"] else 1,
        match["case"] or "",
    )


def _compile(pattern: str | None, rule: str) -> re.Pattern[str] | None:
    if pattern is None:
        return None
    try:
        return re.compile(pattern)
    except (re.error, OverflowError, RecursionError) as error:
        raise ConfigError(f"{SETTING}: {rule!r} has a bad regular expression: {error}", setting=SETTING) from error


def _expanded(replacement: str, match: re.Match[str]) -> str:
    """`$1` is the first group, as in Java."""
    return _PARAMETER.sub(
        lambda found: (match[int(found[1])] or "") if int(found[1]) <= match.re.groups else found[0], replacement
    )
