"""Golden files: written on request, compared otherwise, with a diff that can be read."""

from datetime import UTC, datetime
from decimal import Decimal

import pytest

from tidelog.testing.pipelines import UPDATE_VARIABLE, assert_golden

ROWS = [
    {"id": 2, "value": b'{"a": 1}', "at": datetime(2026, 1, 1, tzinfo=UTC)},
    {"id": 1, "value": b"\xff", "price": Decimal("1.50"), "tags": ["x", None]},
]


@pytest.fixture(autouse=True)
def _no_update(monkeypatch):
    monkeypatch.delenv(UPDATE_VARIABLE, raising=False)


def test_a_file_is_written_on_request_and_compared_afterwards(tmp_path, monkeypatch):
    path = tmp_path / "golden" / "rows.jsonl"
    with pytest.raises(AssertionError, match=f"{UPDATE_VARIABLE}=1"):
        assert_golden(ROWS, path)
    monkeypatch.setenv(UPDATE_VARIABLE, "1")
    assert_golden(ROWS, path)
    monkeypatch.delenv(UPDATE_VARIABLE)
    assert_golden(list(reversed(ROWS)), path)
    with pytest.raises(AssertionError):
        assert_golden(list(reversed(ROWS)), path, ordered=True)


def test_a_difference_is_shown_line_by_line(tmp_path):
    path = tmp_path / "rows.jsonl"
    assert_golden(ROWS, path, update=True)
    with pytest.raises(AssertionError) as found:
        assert_golden([{**ROWS[0], "id": 3}, ROWS[1]], path)
    lines = str(found.value).splitlines()
    assert any(line.startswith('-{"at": "2026-01-01T00:00:00+00:00", "id": 2') for line in lines)
    assert any(line.startswith('+{"at": "2026-01-01T00:00:00+00:00", "id": 3') for line in lines)
