"""Paths into JSON values."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog.console.columns import Cell, ColumnError, cells_of, parse_columns

VALUE = json.dumps(
    {"a": {"b": [1, {"c": "deep"}]}, "odd key, with a comma": True, "n": None, "t": "Grüße", "0": "name"}
)


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("a.b[0]", "1"),
        ("$.a.b[-1].c", "deep"),
        ("a.b", '[1, {"c": "deep"}]'),
        ('["odd key, with a comma"]', "true"),
        ("n", "null"),
        ("t", "Grüße"),
        ("0", "name"),
    ],
)
def test_a_path_names_a_part_of_a_value(path, text):
    assert cells_of(VALUE, parse_columns(path)) == [Cell(path, text)]


@pytest.mark.parametrize("path", ["x", "a.x", "a.b[9]", "a.b.c", "t[0]", "a[0]", "n.x"])
def test_a_part_that_is_not_there_is_missing(path):
    assert cells_of(VALUE, parse_columns(path)) == [Cell(path, "–", is_there=False)]


def test_several_columns_stand_in_the_order_in_which_they_were_named():
    columns = parse_columns(' t,\ta.b[0] , ["odd key, with a comma"],')
    assert [each.name for each in columns] == ["t", "a.b[0]", '["odd key, with a comma"]']
    assert [each.text for each in cells_of(VALUE, columns)] == ["Grüße", "1", "true"]
    assert not any(each.is_there for each in cells_of("no JSON", columns))
    assert parse_columns("  ") == ()


@pytest.mark.parametrize("text", ["a b", "a[", "a[x]", '["a', "a..b[", "x" * 201, ",".join("abcdefghijklm")])
def test_anything_else_is_refused(text):
    with pytest.raises(ColumnError):
        parse_columns(text)


@given(st.text(max_size=40))
def test_any_text_is_columns_or_refused(text):
    try:
        columns = parse_columns(text)
    except ColumnError:
        return
    assert len(cells_of(VALUE, columns)) == len(columns)


@given(st.text(min_size=1, max_size=20))
def test_any_member_can_be_named(name):
    (cell,) = cells_of(json.dumps({name: 7}), parse_columns(f"[{json.dumps(name)}]"))
    assert cell.text == "7"
