"""Keys and values as text."""

import pytest

from tidelog.console.formats import TEXT_CHARACTERS_MAX, Format, show


@pytest.mark.parametrize(
    ("data", "wanted", "kind", "text", "note"),
    [
        (None, Format.AUTO, "null", "null", ""),
        (b'{"a":[1]}', Format.AUTO, "json", '{\n  "a": [\n    1\n  ]\n}', ""),
        (b"12", Format.AUTO, "text", "12", ""),
        (b"12", Format.JSON, "json", "12", ""),
        (b"{half", Format.AUTO, "text", "{half", ""),
        (b"{half", Format.JSON, "text", "{half", "not JSON"),
        ("grüß\n".encode(), Format.AUTO, "text", "grüß\n", ""),
        (b"\x00\xffA", Format.AUTO, "hex", "000000  00 ff 41" + " " * 41 + "··A", ""),
        (b"\xff", Format.TEXT, "hex", "000000  ff" + " " * 47 + "·", "not text"),
        (b"A", Format.HEX, "hex", "000000  41" + " " * 47 + "A", ""),
        (b"", Format.AUTO, "text", "", ""),
    ],
)
def test_a_value_is_shown_in_a_format_that_fits(data, wanted, kind, text, note):
    shown = show(data, wanted)
    assert (shown.kind, shown.text, shown.note) == (kind, text, note)


@pytest.mark.parametrize("data", [b"x" * 10**6, b"\xff" * 10**6, b"[" * 10**6])
def test_what_is_shown_is_bounded(data):
    assert len(show(data, Format.AUTO).text) < TEXT_CHARACTERS_MAX + 100
