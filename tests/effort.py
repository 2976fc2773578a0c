"""Which values of a parametrized test are tried in every run. The others are left to `make test-long`."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

import pytest


def usually(tried: Collection[Any], values: Iterable[Any]) -> list[Any]:
    """`values` as parameters, all but those of `tried` marked `long`."""
    values = list(values)
    assert all(value in values for value in tried), "what is tried in every run is one of the values"
    return [value if value in tried else pytest.param(value, marks=pytest.mark.long) for value in values]
