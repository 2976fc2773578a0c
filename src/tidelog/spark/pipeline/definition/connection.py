"""How a pipeline reaches its cluster: the one home of its brokers and of what it authenticates with.

Source, sink, the topics of a policy, the status topic, replays and backfills all connect with it. Spark gets the
settings as the name of a file (`commandConfig`), because it prints options in plans, event logs and its web interface.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from tidelog.client.aio.settings import CommonSettings
from tidelog.spark.command_config import COMMAND_CONFIG, private_file, read_command_config
from tidelog.spark.delegation import TOKEN_SETTINGS
from tidelog.spark.options import security_settings

SERVERS: Final = "bootstrap.servers"
COMMAND_CONFIG_VARIABLE: Final = "TIDELOG_COMMAND_CONFIG"


@dataclass(frozen=True, slots=True)
class Connection:
    """The brokers of a pipeline and its client settings under Kafka's names. `repr` shows the brokers alone."""

    servers: str
    settings: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    file: str | None = None
    """The file that has the settings, if they come from one."""

    def client(self) -> dict[str, str]:
        """The settings for a client of this process: those that clients of every kind have."""
        common = {name: value for name, value in self.settings if name in CommonSettings.settings}
        return {**common, SERVERS: self.servers}

    def options(self) -> dict[str, str]:
        """The options for a source or a sink of Spark; none of them is a secret."""
        options = {f"kafka.{SERVERS}": self.servers}
        if self.settings:
            options[COMMAND_CONFIG] = self.file or private_file(dict(self.settings))
        return options


def load_client_settings(command_config: str | None, given: Mapping[str, str]) -> tuple[dict[str, str], str | None]:
    """The client settings of a pipeline, and the file that has them: `command_config`, or the environment's.

    Raises ValueError if the file cannot be read, or for an unknown setting of TLS or SASL.
    """
    path = command_config or (None if given else os.environ.get(COMMAND_CONFIG_VARIABLE))
    if path is not None:
        path = os.path.abspath(path)
    settings = dict(given) if path is None else read_command_config(path)
    security_settings({name: value for name, value in settings.items() if name not in TOKEN_SETTINGS})
    return settings, path
