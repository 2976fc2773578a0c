"""The settings of the full clients from a command's options, and the clients that several commands use."""

from pathlib import Path
from typing import Any, Final

from tidelog.cli._options import DEFAULT_BOOTSTRAP
from tidelog.client.admin import Admin
from tidelog.client.aio.admin.admin import AdminSettings
from tidelog.config import parse_properties

BOOTSTRAP_TIMEOUT_MS: Final = 1000


def client_settings(bootstrap_server: str | None, command_config: Path | None) -> dict[str, Any]:
    """The option or its variable first, then the file, then the default; other settings of the file are kept.

    A broker that does not answer is given up sooner than an application would want: somebody waits at a prompt.
    """
    settings: dict[str, Any] = {"client.id": "tidelog-cli", "bootstrap.timeout.ms": BOOTSTRAP_TIMEOUT_MS}
    if command_config is not None:
        settings |= parse_properties(command_config.read_text(encoding="utf-8"))
    settings["bootstrap.servers"] = bootstrap_server or settings.get("bootstrap.servers") or DEFAULT_BOOTSTRAP
    return settings


def connect_admin(bootstrap_server: str | None, command_config: Path | None) -> Admin:
    """An admin; settings of the file that are for other clients are passed over."""
    settings = client_settings(bootstrap_server, command_config)
    return Admin({name: value for name, value in settings.items() if name in AdminSettings.settings})
