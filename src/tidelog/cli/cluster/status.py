"""`tidelog cluster status`, and the rows of the table that `up` keeps on the screen."""

from typing import Any, Final, NamedTuple

from tidelog.cli._options import Format, OutputFormat
from tidelog.cli.cluster._options import DEFAULT_DIRECTORY, Directory
from tidelog.cli.output import print_json, print_line, print_table
from tidelog.client.admin import Admin
from tidelog.client.errors import ClientError
from tidelog.cluster.layout import ClusterDescription, ClusterDirectory
from tidelog.wire.errors import ApiError

EXAMPLE: Final = "tidelog cluster status --format json"

HEADINGS: Final = ("broker", "address", "pid", "state", "leads", "follows", "out of sync")
_ASK_MS: Final = 3000


class BrokerRow(NamedTuple):
    """One broker as the table shows it."""

    broker: int
    address: str
    pid: int
    state: str
    leads: int
    follows: int
    out_of_sync: int


def status(directory: Directory = DEFAULT_DIRECTORY, output: OutputFormat = Format.TEXT) -> None:
    """Show the brokers, how many partitions they lead and follow, and replicas out of sync."""
    description = ClusterDirectory(directory).read()
    rows = broker_rows(description)
    if output is Format.JSON:
        print_json(
            {
                "bootstrap_servers": description.bootstrap_servers,
                "running": bool(description.supervisor_pid),
                "zookeeper": _zookeeper(description),
                "brokers": [
                    {**row._asdict(), "metrics": description.metrics_url(broker)}
                    for row, broker in zip(rows, description.brokers, strict=True)
                ],
            }
        )
        return
    print_table(HEADINGS, rows)
    print_line(f"\nbootstrap servers: {description.bootstrap_servers}")
    pages = [url for broker in description.brokers if (url := description.metrics_url(broker)) is not None]
    if pages:
        print_line(f"metrics: {' '.join(pages)}")
    zookeeper = _zookeeper(description)
    if zookeeper is not None:
        process = f", {zookeeper['state']}, pid {zookeeper['pid']}" if zookeeper["is_own"] else ""
        print_line(f"ZooKeeper: {zookeeper['address']}{process}")


def _zookeeper(description: ClusterDescription) -> dict[str, Any] | None:
    """Where the metadata tree is kept; None if the supervisor keeps it. Only an own ZooKeeper has a state."""
    if description.zookeeper is None:
        return None
    is_own = bool(description.zookeeper_port)
    state = ("running" if description.zookeeper_pid else "stopped") if is_own else None
    return {
        "address": description.zookeeper,
        "is_own": is_own,
        "pid": description.zookeeper_pid,
        "state": state,
    }


def broker_rows(description: ClusterDescription) -> list[BrokerRow]:
    """The state of each broker, from the cluster's metadata if a broker answers."""
    controller, counts = _ask(description) if any(broker.pid for broker in description.brokers) else (-1, {})
    rows = []
    for broker in description.brokers:
        state = "stopped" if not broker.pid else "controller" if broker.broker_id == controller else "running"
        address = f"{description.host}:{broker.port}"
        rows.append(BrokerRow(broker.broker_id, address, broker.pid, state, *counts.get(broker.broker_id, (0, 0, 0))))
    return rows


def _ask(description: ClusterDescription) -> tuple[int, dict[int, tuple[int, int, int]]]:
    settings: dict[str, Any] = {
        "bootstrap.servers": description.bootstrap_servers,
        "bootstrap.timeout.ms": _ASK_MS,
        "default.api.timeout.ms": _ASK_MS,
        "request.timeout.ms": _ASK_MS,
    }
    counts: dict[int, list[int]] = {}
    try:
        with Admin(settings) as admin:
            controller = admin.describe_cluster().controller_id
            names = [topic.name for topic in admin.list_topics(include_internal=True)]
            for topic in admin.describe_topics(names).values():
                for partition in topic.partitions:
                    for replica in partition.replicas:
                        count = counts.setdefault(replica, [0, 0, 0])
                        count[0 if replica == partition.leader_id else 1] += 1
                        count[2] += replica not in partition.in_sync
    except (ClientError, ApiError):
        return -1, {}
    return controller, {broker: (leads, follows, lost) for broker, (leads, follows, lost) in counts.items()}
