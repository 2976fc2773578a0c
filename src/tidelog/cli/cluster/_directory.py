"""The directory of a cluster on this machine: the option that names it, and the state of its brokers."""

from pathlib import Path
from typing import Annotated, Any, Final, NamedTuple

import typer

from tidelog.cli.output import Result, Table
from tidelog.client.admin import Admin
from tidelog.client.errors import ClientError
from tidelog.cluster.layout import ClusterDescription, ClusterDirectory
from tidelog.wire.errors import ApiError

DEFAULT_DIRECTORY: Final = Path("tidelog-cluster")

Directory = Annotated[
    Path,
    typer.Option(
        "--directory",
        envvar="TIDELOG_CLUSTER",
        help="Where the cluster keeps its data and its logs.",
        metavar="DIR",
    ),
]
Process = Annotated[
    str, typer.Argument(help="Id of the broker, or `zookeeper`.", metavar="BROKER|zookeeper", show_default=False)
]
BrokerId = Annotated[int, typer.Argument(help="Id of the broker.", metavar="BROKER", show_default=False)]

HEADINGS: Final = ("BROKER", "ADDRESS", "PID", "STATE", "LEADS", "FOLLOWS", "OUT-OF-SYNC")
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

    @property
    def cells(self) -> tuple[object, ...]:
        """Under `HEADINGS`."""
        return self.broker, self.address, self.pid or "-", *self[3:]


def status(directory: Directory = DEFAULT_DIRECTORY) -> Result:
    """Show the brokers, how many partitions they lead and follow, and replicas out of sync."""
    description = ClusterDirectory(directory).read()
    rows = broker_rows(description)
    zookeeper = _zookeeper(description)
    document = {
        "bootstrap_servers": description.bootstrap_servers,
        "running": bool(description.supervisor_pid),
        "zookeeper": zookeeper,
        "brokers": [
            {**row._asdict(), "metrics": description.metrics_url(broker)}
            for row, broker in zip(rows, description.brokers, strict=True)
        ],
    }
    lines = [f"\nbootstrap servers: {description.bootstrap_servers}"]
    pages = [url for broker in description.brokers if (url := description.metrics_url(broker)) is not None]
    if pages:
        lines.append(f"metrics: {' '.join(pages)}")
    if zookeeper is not None:
        process = f", {zookeeper['state']}, pid {zookeeper['pid'] or '-'}" if zookeeper["is_own"] else ""
        lines.append(f"ZooKeeper: {zookeeper['address']}{process}")
    return Result(document, Table(headings=HEADINGS, rows=[row.cells for row in rows], after="\n".join(lines)))


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
