"""Pages of metrics as text: Prometheus 0.0.4 and OpenMetrics 1.0.0.

The two differ in how counters are announced, and in the last line. A page is made in pieces of a few hundred lines, so
that an event loop can do other work in between.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from math import isinf, isnan
from typing import Final

from tidelog.metrics.families import Family, Kind, Sample, escape

CONTENT_TYPE_TEXT: Final = "text/plain; version=0.0.4; charset=utf-8"
CONTENT_TYPE_OPENMETRICS: Final = "application/openmetrics-text; version=1.0.0; charset=utf-8"

_LINES_AT_ONCE: Final = 200
"""A quarter of a millisecond."""


def page_in_pieces(families: Iterable[Family], openmetrics: bool) -> Iterator[bytes]:
    """The page of `families`, piece by piece. Families of one name are brought together, as both formats demand."""
    by_name: dict[str, list[Family]] = {}
    for family in families:
        by_name.setdefault(family.name, []).append(family)
    pending: list[str] = []
    for name, alike in by_name.items():
        pending.append(_header(alike[0], openmetrics))
        for family in alike:
            assert family.kind is alike[0].kind, f"{name} is a {alike[0].kind.value} and a {family.kind.value}"
            samples = iter(family.samples)
            while lines := _lines(name, islice(samples, _LINES_AT_ONCE)):
                pending += lines
                if len(pending) >= _LINES_AT_ONCE:
                    yield "".join(pending).encode()
                    pending.clear()
    if openmetrics:
        pending.append("# EOF\n")
    yield "".join(pending).encode()


def _header(family: Family, openmetrics: bool) -> str:
    name, kind = family.name, family.kind
    shown = kind.value
    if kind is Kind.COUNTER and not openmetrics:
        name += "_total"
    elif kind is Kind.INFO and not openmetrics:
        name, shown = f"{name}_info", "gauge"
    elif kind is Kind.COUNT:
        shown = "unknown" if openmetrics else "untyped"
    documentation = escape(family.documentation)
    if not openmetrics:
        # Quotes stay as they are there.
        documentation = documentation.replace('\\"', '"')
    return f"# HELP {name} {documentation}\n# TYPE {name} {shown}\n"


def _lines(name: str, samples: Iterable[Sample]) -> list[str]:
    return [
        f"{name}{suffix}{{{labels}}} {value if value.__class__ is int else number_text(value)}\n"
        if labels
        else f"{name}{suffix} {value if value.__class__ is int else number_text(value)}\n"
        for suffix, labels, value in samples
    ]


def number_text(value: float) -> str:
    """A value as both formats write it."""
    if isnan(value):
        return "NaN"
    if isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    return repr(float(value))
