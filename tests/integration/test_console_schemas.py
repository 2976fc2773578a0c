"""The registry in the console: subjects and versions, checks and registration, and records written with a schema."""

from __future__ import annotations

import base64
import html
import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorProto

from tests.integration.console_support import LISTEN, Browser, console
from tidelog.client.consumer import Consumer
from tidelog.client.schemas.registry import Schema, SchemaReference, SchemaRegistry
from tidelog.client.types import TopicPartition
from tidelog.console.clusters import Cluster
from tidelog.console.settings import ClusterSettings, ConsoleSettings
from tidelog.testing import Broker, SchemaRegistryServer

HOSTILE = "<script>alert('&')</script>"
MONEY = {"type": "record", "name": "Money", "fields": [{"name": "cents", "type": "long"}]}
ORDER: dict[str, Any] = {
    "type": "record",
    "name": "Order",
    "doc": HOSTILE,
    "fields": [{"name": "id", "type": "long"}, {"name": "price", "type": "Money"}],
}
NOTE = {"name": "note", "type": ["null", "string"], "default": None}
WIDER = {**ORDER, "fields": [*ORDER["fields"], NOTE]}
RULES = {"type": "object", "properties": {"id": {"type": "integer"}}, "required": ["id"]}


@pytest.fixture(scope="module")
def servers() -> Iterator[str]:
    with Broker(config={"offsets.topic.num.partitions": 5}) as broker:
        for topic in ("orders", "clicks", "refunds"):
            broker.create_topic(topic, 1)
        yield broker.bootstrap_servers


@pytest.fixture(scope="module")
def registry() -> Iterator[SchemaRegistryServer]:
    with SchemaRegistryServer() as made:
        client = SchemaRegistry(made.url)
        client.register("money", Schema(json.dumps(MONEY)))
        client.register("orders-value", Schema(json.dumps(ORDER), references=(SchemaReference("Money", "money", 1),)))
        client.register("clicks-value", Schema(json.dumps(RULES), "JSON"))
        file = FileDescriptorProto(name="refund.proto", syntax="proto3", package="shop")
        for name in ("Refund", "Reason"):
            file.message_type.add(name=name).field.add(name="text", number=1, label=1, type=9)
        client.register("refunds-value", Schema(base64.b64encode(file.SerializeToString()).decode(), "PROTOBUF"))
        yield made


@pytest.fixture(scope="module")
def browser(servers: str, registry: SchemaRegistryServer) -> Iterator[Browser]:
    with console(servers, schema_registry=registry.url) as made:
        yield made


def _fields(page: str) -> dict[str, Any]:
    """The visible fields of a form, as they are shown."""
    texts = re.findall(r'<textarea[^>]* name="(\w+)"[^>]*>(.*?)</textarea>', page, re.DOTALL)
    texts += re.findall(r'<input id="[^"]*" name="(\w+)" value="([^"]*)"', page)
    for name, options in re.findall(r'<select id="[^"]*" name="(\w+)">(.*?)</select>', page, re.DOTALL):
        texts += [(name, value) for value in re.findall(r'<option value="([^"]*)" selected', options)]
    return {name: html.unescape(text) for name, text in texts}


def _last_value(servers: str, topic: str) -> bytes:
    where = TopicPartition(topic, 0)
    with Consumer(bootstrap_servers=servers) as consumer:
        consumer.assign([where])
        consumer.seek(where, consumer.end_offsets(where)[where] - 1)
        return bytes(next(iter(consumer)).value or b"")


def test_subjects_are_listed_with_their_newest_version_and_found_by_name(browser: Browser) -> None:
    page = browser.page("/schemas")
    assert "New versions: BACKWARD" in page
    for subject in ("money", "orders-value", "clicks-value", "refunds-value"):
        assert f'href="/schema?subject={subject}"' in page
    page = browser.page("/schemas?q=CLICK")
    assert "clicks-value" in page
    assert "orders-value" not in page
    assert "No subject has" in browser.page("/schemas?q=xyz")


def test_a_subject_shows_its_schema_with_references_and_its_topic(browser: Browser) -> None:
    page = browser.page("/schema?subject=orders-value")
    assert HOSTILE not in page
    assert "&lt;script&gt;" in page
    assert 'href="/schema?subject=money&amp;version=1"' in page
    assert 'href="/topics/orders"' in page
    assert "refund.proto" in browser.page("/schema?subject=refunds-value"), "a descriptor is shown as text"
    assert "has no version 7" in browser.page("/schema?subject=orders-value&version=7", status=404)
    assert "It does not exist" in browser.page("/schema?subject=missing", status=404)


def test_a_version_is_checked_then_registered_and_shows_what_is_new(browser: Browser) -> None:
    path = "/schema/register?subject=orders-value"
    given = _fields(browser.page(path))
    assert json.loads(given["schema"]) == ORDER
    assert given["references"] == "Money=money:1"
    taken = {**ORDER, "fields": [*ORDER["fields"], {"name": "note", "type": "string"}]}
    refused = browser.submit(path, status=409, **{**given, "schema": json.dumps(taken)})
    assert "By BACKWARD it is not compatible" in refused
    assert "note" in html.unescape(refused)
    preview = browser.submit(path, **{**given, "schema": json.dumps(WIDER, indent=2)})
    assert "By BACKWARD it is compatible." in preview
    assert "+    {" in html.unescape(preview)
    hidden = dict(re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)"', preview))
    data = {name: html.unescape(value) for name, value in hidden.items()}
    response = browser.client.post("/schema/register/send", data=data)
    assert "is version 2 of orders-value." in response.text
    assert 'class="added">+' in response.text


@pytest.mark.parametrize(
    ("values", "complaint"),
    [
        ({"schema": "{"}, "The schema cannot be read"),
        ({"schema": '{"type": "nothing"}'}, "Invalid schema"),
        ({"schema": '"long"', "references": "Money"}, "is not name=subject:version"),
        ({"schema": ""}, "Schema is missing."),
    ],
)
def test_a_schema_that_cannot_be_used_shows_the_form_again(
    browser: Browser, values: dict[str, str], complaint: str
) -> None:
    form = browser.page("/schema/register")
    secret = form.split('name="form_secret" value="')[-1].split('"')[0]
    data = {"form_secret": secret, "subject": "new-value", "type": "AVRO", **values}
    response = browser.client.post("/schema/register", data=data)
    assert response.status_code >= 400
    assert complaint in html.unescape(response.text)
    assert 'name="schema"' in response.text


def test_the_rule_of_a_subject_is_set_and_cleared(browser: Browser, registry: SchemaRegistryServer) -> None:
    path = "/schema/compatibility?subject=clicks-value"
    assert "is FULL now" in browser.submit(path, level="FULL")
    assert SchemaRegistry(registry.url).compatibility("clicks-value") == "FULL"
    assert "that of all others" in browser.submit(path, level="")
    assert SchemaRegistry(registry.url).compatibility("clicks-value") is None
    assert "is none of BACKWARD" in html.unescape(browser.submit(path, status=400, level="SOME"))
    assert "is NONE now" in browser.submit("/schema/compatibility", level="NONE")
    assert "is BACKWARD now" in browser.submit("/schema/compatibility", level="BACKWARD")


@pytest.mark.parametrize(
    ("topic", "value"),
    [
        ("orders", {"id": 7, "price": {"cents": 250}}),
        ("clicks", {"id": 3}),
        ("refunds", {"text": "late"}),
    ],
)
def test_a_record_is_written_with_the_schema_of_its_topic(
    browser: Browser, servers: str, topic: str, value: dict[str, Any]
) -> None:
    path = f"/topics/{topic}/produce"
    given = _fields(browser.page(path))
    assert given["value_encoding"] == "schema"
    assert set(json.loads(given["value"])) >= set(value), "the form begins with an example"
    page = browser.submit(path, **{**given, "value": json.dumps(value)})
    assert "The record was written" in page
    assert _last_value(servers, topic)[:1] == b"\0"
    page = html.unescape(browser.page(f"/topics/{topic}/messages"))
    assert all(f'"{name}"' in page for name in value)
    refused = browser.submit(path, status=400, **{**given, "value": '{"nothing": 1}'})
    assert f"{topic}-value, version" in refused
    assert "This is not JSON" not in refused
    assert "written as JSON" in browser.submit(path, status=400, **{**given, "value": "{"})


def test_a_record_with_a_schema_is_produced_again_with_the_same_one(browser: Browser, servers: str) -> None:
    page = browser.submit(
        "/topics/refunds/produce",
        key="",
        value='{"text": "why"}',
        value_encoding="schema",
        value_schema="refunds-value:1 shop.Reason",
    )
    offset = int(re.findall(r"at offset (\d+)", page)[0])
    before = _last_value(servers, "refunds")
    path = f"/topics/refunds/produce?partition=0&offset={offset}"
    given = _fields(browser.page(path))
    assert given["value_schema"].endswith("shop.Reason")
    browser.submit(path, **given)
    assert _last_value(servers, "refunds") == before


def test_users_of_the_cluster_look_at_the_registry_and_do_not_change_it(
    browser: Browser, registry: SchemaRegistryServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    sasl = ClusterSettings(client={"bootstrap.servers": "b:9092", "security.protocol": "SASL_SSL"})
    assert not Cluster(sasl, ConsoleSettings(clusters=(sasl,), listen=LISTEN)).may_change_registry
    monkeypatch.setattr(Cluster, "may_change_registry", False)
    assert "/schema/register" not in browser.page("/schemas")
    path = "/schema/register?subject=money"
    assert "could be registered" in browser.submit(path, status=403, **_fields(browser.page(path)))
    secret = browser.page(path).split('name="form_secret" value="')[1].split('"')[0]
    data = {"form_secret": secret, "subject": "sneaky", "type": "AVRO", "schema": '"long"'}
    assert browser.client.post("/schema/register/send", data=data).status_code == 403
    assert "sneaky" not in registry.subjects


def test_without_a_registry_there_are_no_schemas_and_a_dead_one_is_named(servers: str) -> None:
    with console(servers) as browser:
        assert 'href="/schemas"' not in browser.page("/topics")
        assert "--schema-registry" in browser.page("/schemas", status=404)
    with console(servers, schema_registry="http://127.0.0.1:1") as browser:
        assert "The schema registry cannot be reached" in browser.page("/schemas", status=503)
        assert "The schema registry cannot be reached" in browser.page("/topics/orders/produce")
