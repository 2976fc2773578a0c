"""The settings of the full clients from a command's options. `export` and `import` are the callers."""

from pathlib import Path
from typing import Any

from tidelog.cli._options import DEFAULT_BOOTSTRAP
from tidelog.config import parse_properties


def client_settings(bootstrap_server: str | None, command_config: Path | None) -> dict[str, Any]:
    """The option or its variable first, then the file, then the default; other settings of the file are kept."""
    settings: dict[str, Any] = {"client.id": "tidelog-cli"}
    if command_config is not None:
        settings |= parse_properties(command_config.read_text(encoding="utf-8"))
    settings["bootstrap.servers"] = bootstrap_server or settings.get("bootstrap.servers") or DEFAULT_BOOTSTRAP
    return settings
