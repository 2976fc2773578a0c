"""Creates the clients of commands from their options."""

import sys
from pathlib import Path
from typing import Any, Final, NamedTuple

from tidelog.cli._options import DEFAULT_BOOTSTRAP
from tidelog.cli.errors import CommandError
from tidelog.client.admin import Admin
from tidelog.client.aio.admin.admin import AdminSettings
from tidelog.client.aio.settings import CommonSettings
from tidelog.client.types import BrokerNode, TopicPartition
from tidelog.config import parse_properties
from tidelog.config.names import with_suggestion

BOOTSTRAP_TIMEOUT_MS: Final = 1000
VISIBLE_TIMEOUT_MS: Final = 10_000


class Connection(NamedTuple):
    """The cluster that the options of a command name."""

    bootstrap_server: str | None = None
    command_config: Path | None = None

    def admin(self) -> Admin:
        """An admin of the cluster. What it changes, the next command sees on every broker."""
        return connect_admin(self.bootstrap_server, self.command_config)

    def settings(self, group: type[CommonSettings]) -> dict[str, Any]:
        """Settings of a client of the cluster, as `group` declares them."""
        return client_settings(self.bootstrap_server, self.command_config, group)


def client_settings(
    bootstrap_server: str | None, command_config: Path | None, *groups: type[CommonSettings]
) -> dict[str, Any]:
    """Settings of clients, as `groups` declare them: the option or its environment variable first, then the file.

    Unknown settings in the file are reported on stderr and ignored. The bootstrap timeout is shorter than in an
    application, because a user waits at a prompt.
    """
    settings: dict[str, Any] = {"client.id": "tidelog-cli", "bootstrap.timeout.ms": BOOTSTRAP_TIMEOUT_MS}
    if command_config is not None:
        known = {name for group in groups for name in group.settings}
        for name, value in parse_properties(command_config.read_text(encoding="utf-8")).items():
            if name in known:
                settings[name] = value
            else:
                described = with_suggestion(name, known)
                sys.stderr.write(f"tidelog: {command_config}: {described} is not a setting of this client, ignored\n")
    settings["bootstrap.servers"] = bootstrap_server or settings.get("bootstrap.servers") or DEFAULT_BOOTSTRAP
    return settings


def connect_admin(bootstrap_server: str | None, command_config: Path | None) -> Admin:
    """An admin of the cluster that the options name. What it changes, the next command sees on every broker."""
    settings = client_settings(bootstrap_server, command_config, AdminSettings)
    return Admin({"visible.timeout.ms": VISIBLE_TIMEOUT_MS, **settings})


def partitions_or_all(admin: Admin, topic: str, chosen: list[int] | None) -> list[TopicPartition]:
    """The partitions given by `--partition`, if the topic has them; all partitions if none is given."""
    existing = [each.partition for each in admin.describe_topics([topic])[topic].partitions]
    for partition in chosen or ():
        if partition not in existing:
            raise CommandError(f"topic {topic!r} has no partition {partition}; it has 0 to {len(existing) - 1}")
    return [TopicPartition(topic, each) for each in (sorted(set(chosen)) if chosen else existing)]


def leader_of(admin: Admin, where: TopicPartition) -> BrokerNode:
    """The broker that leads a partition."""
    leader_id = admin.describe_topics([where.topic])[where.topic].partitions[where.partition].leader_id
    for node in admin.describe_cluster().nodes:
        if node.node_id == leader_id:
            return node
    raise CommandError(f"{where} has no leader now")
