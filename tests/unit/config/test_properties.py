"""Java's .properties grammar."""

import pytest

from tidelog.config import ConfigError, parse_properties


@pytest.mark.parametrize(
    ("text", "properties"),
    [
        ("", {}),
        ("a=b", {"a": "b"}),
        ("a:b", {"a": "b"}),
        ("a b", {"a": "b"}),
        ("  a \t= \t b c \n", {"a": "b c "}),
        ("a", {"a": ""}),
        ("a=", {"a": ""}),
        ("=b", {"": "b"}),
        ("a==b", {"a": "=b"}),
        ("a : = b", {"a": "= b"}),
        ("# a=b\n! c=d\n\n   \n  # e\nf=g", {"f": "g"}),
        ("a=b # not a comment", {"a": "b # not a comment"}),
        ("a=1\r\nb=2\rc=3\nd=4", {"a": "1", "b": "2", "c": "3", "d": "4"}),
        ("a=1\na=2", {"a": "2"}),
        ("a=b,\\\n   c,\\\r\n  d", {"a": "b,c,d"}),
        ("a=b\\\\\nc=d", {"a": "b\\", "c": "d"}),
        ("a=b\\\n# c", {"a": "b# c"}),
        ("# no continuation \\\na=b", {"a": "b"}),
        ("a=b\\", {"a": "b"}),
        ("a\\ b\\=c\\:d=e", {"a b=c:d": "e"}),
        ("a=\\t\\n\\r\\f\\\\\\q", {"a": "\t\n\r\f\\q"}),
        ("a=\\u0041\\u00e9\\uD83D\\uDE00", {"a": "Aé😀"}),
        ("a=\\ud83d", {"a": "�"}),
        ("listeners=PLAINTEXT://:9092", {"listeners": "PLAINTEXT://:9092"}),
        ("\\\n", {}),
        ("\\\n# a comment after nothing\nb=c", {"b": "c"}),
    ],
)
def test_lines_are_read_as_java_reads_them(text: str, properties: dict[str, str]) -> None:
    assert parse_properties(text) == properties


@pytest.mark.parametrize("escape", ["\\u", "\\u12", "\\u12g4", "\\u+123"])
def test_a_broken_escape_is_refused_with_its_line(escape: str) -> None:
    with pytest.raises(ConfigError, match="line 3"):
        parse_properties(f"a=b\n\nc={escape}\n")
