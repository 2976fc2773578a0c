"""What `tidelog.client` offers can be imported from there, and docs/clients.md tells of every setting."""

from pathlib import Path

import pytest

import tidelog.client
from tidelog.client.aio.consumer.settings import ConsumerSettings
from tidelog.client.aio.producer.settings import ProducerSettings
from tidelog.config.declaration import Settings

DOCUMENT = Path(__file__).parents[3] / "docs" / "clients.md"


@pytest.mark.parametrize("name", tidelog.client.__all__)
def test_every_public_name_is_there(name: str) -> None:
    assert getattr(tidelog.client, name).__name__ == name


@pytest.mark.parametrize("group", [ProducerSettings, ConsumerSettings])
def test_every_setting_is_documented_with_its_default(group: type[Settings]) -> None:
    text = DOCUMENT.read_text(encoding="utf-8")
    for setting in group.settings.values():
        row = f"| `{setting.name}` | {shown_default(setting.default)} | {setting.doc} |"
        assert row in text, row


def shown_default(default: object) -> str:
    if default is None or default in ("", ()):
        return "none"
    listed = ", ".join(map(str, default)) if isinstance(default, tuple) else str(default)
    return f"`{listed.lower() if isinstance(default, bool) else listed}`"
