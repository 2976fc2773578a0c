"""What is copied from the page of a record names the record, and nothing secret."""

import ast

import pytest

from tidelog.client.aio.consumer.types import ConsumerRecord, TimestampType
from tidelog.console.snippets import Place, as_json, snippets_of

RECORD = ConsumerRecord(
    "orders", 2, 17, 1_000, b"\xff", b"text", (("h", b"v"), ("n", None)), TimestampType.CREATE_TIME, 0
)


@pytest.mark.parametrize("is_secured", [False, True])
def test_secured_clusters_are_reached_with_a_file_of_settings(is_secured):
    texts = snippets_of(RECORD, Place("a:1,b:2", is_secured, "http://c/x?as=json", ""))
    ast.parse(texts["Python"])
    for name in ("Python", "Command line"):
        assert ("client.properties" in texts[name]) is is_secured
        assert "a:1,b:2" in texts[name]
    assert texts["curl"] == "curl 'http://c/x?as=json'"


def test_the_session_of_the_browser_is_not_shown():
    texts = snippets_of(RECORD, Place("a:1", False, "http://c/x?as=json", "tidelog-console-8080"))
    assert texts["curl"].endswith("--cookie tidelog-console-8080=SESSION")


def test_a_record_is_json_with_base64_for_what_is_not_text():
    assert as_json(RECORD) == {
        "topic": "orders",
        "partition": 2,
        "offset": 17,
        "timestamp_ms": 1_000,
        "key": {"base64": "/w=="},
        "value": "text",
        "headers": [["h", "v"], ["n", None]],
    }
