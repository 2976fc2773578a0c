"""The clients that group commands use, from the options that all commands take."""

from pathlib import Path
from typing import Any

from tidelog.cli._options import DEFAULT_BOOTSTRAP
from tidelog.client.admin import Admin
from tidelog.client.aio.admin.admin import AdminSettings
from tidelog.config import parse_properties


def client_settings(bootstrap_server: str | None, command_config: Path | None) -> dict[str, Any]:
    """Settings by Kafka's names: the file's, with the option or its variable before them."""
    settings = {} if command_config is None else parse_properties(command_config.read_text(encoding="utf-8"))
    if bootstrap_server is not None:
        settings["bootstrap.servers"] = bootstrap_server
    settings.setdefault("bootstrap.servers", DEFAULT_BOOTSTRAP)
    return settings


def connect_admin(bootstrap_server: str | None, command_config: Path | None) -> Admin:
    """An admin; settings of the file that are for other clients are passed over."""
    settings = client_settings(bootstrap_server, command_config)
    return Admin({name: value for name, value in settings.items() if name in AdminSettings.settings})
