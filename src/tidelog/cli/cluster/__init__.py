"""`tidelog cluster`: several brokers on this machine, in one directory."""

import typer

from tidelog.cli._verbs import noun, verb
from tidelog.cli.cluster import brokers, migrate, status, up


def register(application: typer.Typer) -> None:
    """Add the noun and its verbs."""
    cluster = noun(application, "cluster", "Run several brokers on this machine, in one directory.")
    verb(cluster, "up", up.up, up.EXAMPLE, up.UpCommand)
    verb(cluster, "status", status.status, status.EXAMPLE)
    verb(cluster, "add", brokers.add, brokers.ADD_EXAMPLE)
    verb(cluster, "kill", brokers.kill, brokers.KILL_EXAMPLE)
    verb(cluster, "stop", brokers.stop, brokers.STOP_EXAMPLE)
    verb(cluster, "restart", brokers.restart, brokers.RESTART_EXAMPLE)
    verb(cluster, "migrate", migrate.migrate, migrate.EXAMPLE)
    verb(cluster, "down", brokers.down, brokers.DOWN_EXAMPLE)
