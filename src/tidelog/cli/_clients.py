"""Creates the clients of commands from their options."""

import sys
from pathlib import Path
from typing import Any, Final, NamedTuple

from tidelog.cli import _profiles
from tidelog.cli._options import DEFAULT_BOOTSTRAP
from tidelog.cli.errors import CommandError
from tidelog.client.admin import Admin
from tidelog.client.aio.admin.admin import AdminSettings
from tidelog.client.aio.consumer.settings import ConsumerSettings
from tidelog.client.aio.producer.settings import ProducerSettings
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
    profile: str | None = None

    def admin(self) -> Admin:
        """An admin of the cluster. What it changes, the next command sees on every broker."""
        return Admin({"visible.timeout.ms": VISIBLE_TIMEOUT_MS, **self.settings(AdminSettings)})

    def settings(self, *groups: type[CommonSettings]) -> dict[str, Any]:
        """Settings of clients of the cluster, as `groups` declare them."""
        return client_settings(self.bootstrap_server, self.command_config, *groups, profile=self.profile)

    @property
    def registry_url(self) -> str | None:
        """The schema registry of the profile."""
        found = _profile(self.bootstrap_server, self.command_config, self.profile)
        return None if found is None else found.settings.get(_profiles.REGISTRY_SETTING)


def client_settings(
    bootstrap_server: str | None,
    command_config: Path | None,
    *groups: type[CommonSettings],
    profile: str | None = None,
) -> dict[str, Any]:
    """Settings of clients, as `groups` declare them: options and their variables first, then the file, then a profile.

    Unknown settings in the file are reported on stderr and ignored; `profile create` has reported those of a profile.
    The bootstrap timeout is shorter than in an application, because a user waits at a prompt.
    """
    settings: dict[str, Any] = {"client.id": "tidelog-cli", "bootstrap.timeout.ms": BOOTSTRAP_TIMEOUT_MS}
    known = {name for group in groups for name in group.settings}
    chosen = _profile(bootstrap_server, command_config, profile)
    if chosen is not None:
        settings |= {name: value for name, value in chosen.settings.items() if name in known}
    if command_config is not None:
        for name, value in parse_properties(command_config.read_text(encoding="utf-8")).items():
            if name in known:
                settings[name] = value
            else:
                described = with_suggestion(name, known)
                sys.stderr.write(f"tidelog: {command_config}: {described} is not a setting of this client, ignored\n")
    settings["bootstrap.servers"] = bootstrap_server or settings.get("bootstrap.servers") or DEFAULT_BOOTSTRAP
    return settings


def _profile(
    bootstrap_server: str | None, command_config: Path | None, profile: str | None
) -> _profiles.Profile | None:
    return _profiles.find(profile, is_cluster_named=bool(bootstrap_server or command_config))


def known_settings() -> set[str]:
    """The settings that any of our clients has, and those that only commands read."""
    groups: tuple[type[CommonSettings], ...] = (AdminSettings, ConsumerSettings, ProducerSettings)
    return {_profiles.REGISTRY_SETTING, *(name for group in groups for name in group.settings)}


def connect_admin(bootstrap_server: str | None, command_config: Path | None) -> Admin:
    """An admin of the cluster that the options name."""
    return Connection(bootstrap_server, command_config).admin()


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
