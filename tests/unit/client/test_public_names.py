"""What `tidelog.client` offers can be imported from there, and docs/clients.md has every setting."""

import inspect
from importlib import import_module
from pathlib import Path

import pytest

import tidelog.client
from tidelog.client import (
    Admin,
    AsyncAdmin,
    AsyncConsumer,
    AsyncProducer,
    AsyncShareConsumer,
    Consumer,
    Producer,
    ShareConsumer,
)
from tidelog.client.aio.admin.admin import AdminSettings
from tidelog.client.aio.consumer.settings import ConsumerSettings
from tidelog.client.aio.producer.settings import ProducerSettings
from tidelog.client.aio.share.settings import ShareConsumerSettings
from tidelog.config.declaration import Settings

# Points in time are what brokers store: milliseconds since 1970.
TIMESTAMPS = {"timestamp_ms", "times_ms", "deliver_at_ms"}
DOCUMENT = Path(__file__).parents[3] / "docs" / "clients.md"


@pytest.mark.parametrize("name", import_module("tidelog.client").__all__)
def test_every_public_name_is_there(name: str) -> None:
    assert hasattr(tidelog.client, name)


@pytest.mark.parametrize("group", [ProducerSettings, ConsumerSettings, ShareConsumerSettings, AdminSettings])
def test_every_setting_is_documented_with_its_default(group: type[Settings]) -> None:
    text = DOCUMENT.read_text(encoding="utf-8")
    for setting in group.settings.values():
        row = f"| `{setting.name}` | {shown_default(setting.default)} | {setting.doc} |"
        assert row in text, row


@pytest.mark.parametrize(
    "client",
    [Producer, AsyncProducer, Consumer, AsyncConsumer, ShareConsumer, AsyncShareConsumer, Admin, AsyncAdmin],
)
def test_durations_are_in_seconds_and_their_names_say_so(client: type) -> None:
    """`close(10)` must not mean ten seconds in one client and ten milliseconds in another."""
    for name, method in inspect.getmembers(client, inspect.isfunction):
        if name.startswith("_"):
            continue
        for parameter in set(inspect.signature(method).parameters) - TIMESTAMPS:
            assert not parameter.endswith("_ms"), f"{client.__name__}.{name} takes {parameter}"
            assert not parameter.startswith("timeout") or parameter == "timeout_s", f"{client.__name__}.{name}"


def shown_default(default: object) -> str:
    if default is None or default in ("", ()):
        return "none"
    listed = ", ".join(map(str, default)) if isinstance(default, tuple) else str(default)
    return f"`{listed.lower() if isinstance(default, bool) else listed}`"
