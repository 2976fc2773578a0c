"""A metric family: a name, what it means, and samples, each with its labels.

Samples are an iterable that is read once, when the page is made: a collector may hand over a generator, so that the
page of a broker with thousands of partitions is made piece by piece. A generator must not iterate over a container
that may change between two pieces.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from enum import Enum
from typing import Final, NamedTuple

Sample = tuple[str, str, float]
"""The end of the sample's name (empty for most), its labels as `labels_text` writes them, and its value."""

_NAME: Final = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*\Z")
_LABEL_NAME: Final = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*\Z")
_RESERVED_LABELS: Final = frozenset({"le", "quantile"})
_TO_ESCAPE: Final = re.compile(r'[\\"\n]')
_ESCAPED: Final = {"\\": "\\\\", '"': '\\"', "\n": "\\n"}


class Kind(Enum):
    """The type of a family."""

    COUNTER = "counter"
    """Its samples end in `_total`; the family's name does not."""
    COUNT = "count"
    """A counter by another name than `…_total`. It has no type on a page: OpenMetrics has no such counters, and readers
    of the older format change its name."""
    GAUGE = "gauge"
    SUMMARY = "summary"
    HISTOGRAM = "histogram"
    INFO = "info"
    """Facts as labels of a sample that is 1; its name ends in `_info`, that of the family does not."""


class Family(NamedTuple):
    """All samples of one name."""

    name: str
    kind: Kind
    documentation: str
    samples: Iterable[Sample]


def labels_text(names: Sequence[str], values: Sequence[str]) -> str:
    """Labels as they stand between the braces of a sample."""
    return ",".join([f'{name}="{escape(value)}"' for name, value in zip(names, values, strict=True)])


def escape(value: str) -> str:
    """A label's value, or a family's documentation, on one line. Lone surrogates are replaced: pages are UTF-8."""
    if not value.isascii():
        value = value.encode("utf-8", "replace").decode()
    if _TO_ESCAPE.search(value) is None:
        return value
    return _TO_ESCAPE.sub(lambda match: _ESCAPED[match[0]], value)


def check_names(name: str, label_names: Sequence[str]) -> None:
    """Raise ValueError for a name that no page can have."""
    if _NAME.match(name) is None:
        raise ValueError(f"{name!r} is not a metric name: letters, digits, _ and : only, and no digit first")
    for label in label_names:
        if _LABEL_NAME.match(label) is None or label.startswith("__") or label in _RESERVED_LABELS:
            raise ValueError(f"{label!r} of {name} is not a label name that may be used")
    if len(set(label_names)) != len(label_names):
        raise ValueError(f"{name} has a label twice: {', '.join(label_names)}")
