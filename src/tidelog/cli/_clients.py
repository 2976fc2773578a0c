"""The settings of the full clients from a command's options, and the clients that several commands use."""

from pathlib import Path
from typing import Any

from tidelog.cli._options import DEFAULT_BOOTSTRAP
from tidelog.client.admin import Admin
from tidelog.client.aio.admin.admin import AdminSettings
from tidelog.client.cluster import ClusterClient
from tidelog.config import parse_properties


def client_settings(bootstrap_server: str | None, command_config: Path | None) -> dict[str, Any]:
    """The option or its variable first, then the file, then the default; other settings of the file are kept.

    Raises BrokerUnavailable if nobody answers there: the clients would try for as long as an application may want them
    to, and at a prompt that is too long.
    """
    settings: dict[str, Any] = {"client.id": "tidelog-cli"}
    if command_config is not None:
        settings |= parse_properties(command_config.read_text(encoding="utf-8"))
    settings["bootstrap.servers"] = bootstrap_server or settings.get("bootstrap.servers") or DEFAULT_BOOTSTRAP
    with ClusterClient(settings["bootstrap.servers"], client_id=settings["client.id"]) as cluster:
        cluster.metadata(())
    return settings


def connect_admin(bootstrap_server: str | None, command_config: Path | None) -> Admin:
    """An admin; settings of the file that are for other clients are passed over."""
    settings = client_settings(bootstrap_server, command_config)
    return Admin({name: value for name, value in settings.items() if name in AdminSettings.settings})
