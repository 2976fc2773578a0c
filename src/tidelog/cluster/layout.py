"""The directory of a cluster on one machine: its files, and the description of the cluster.

cluster.json     brokers, ports and settings; written by the supervisor, read by every command
metadata.db      the metadata tree, if the supervisor serves it
zookeeper/       the data and the log of ZooKeeper, if the supervisor runs one
metadata.sock    socket of the metadata tree
control.sock     socket for commands to the supervisor
supervisor.log   log of a supervisor in the background
broker-1/        the log directory of broker 1
broker-1.log     the log of broker 1
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

DESCRIPTION_NAME: Final = "cluster.json"
_SOCKET_PATH_BYTES_MAX: Final = 100
"""Linux takes 107 bytes, macOS 103."""


class ClusterError(Exception):
    """A cluster cannot be started, found or controlled; the message names the reason and what to do."""


@dataclass
class BrokerDescription:
    """One broker of the cluster. `pid` is 0 while it is stopped."""

    broker_id: int
    port: int
    pid: int = 0
    settings: dict[str, str] = field(default_factory=dict)
    """Settings of this broker alone; they take precedence over all others."""
    metrics_port: int = 0
    """Where its metrics are read; 0 if they are not, or elsewhere by its settings."""


@dataclass
class ClusterDescription:
    """What `cluster.json` holds."""

    brokers: list[BrokerDescription] = field(default_factory=list)
    settings: dict[str, str] = field(default_factory=dict)
    zookeeper: str | None = None
    """The connect string, if the metadata tree is kept by ZooKeeper."""
    zookeeper_port: int = 0
    """The port of the ZooKeeper that the supervisor runs; 0 if it runs none."""
    zookeeper_pid: int = 0
    """0 while that is stopped."""
    supervisor_pid: int = 0
    host: str = "127.0.0.1"
    has_metrics: bool = False
    """Whether brokers serve pages of metrics, unless `metrics.listeners` is set otherwise."""

    def metrics_url(self, broker: BrokerDescription) -> str | None:
        """Where the metrics of a broker are read."""
        return f"http://{self.host}:{broker.metrics_port}/metrics" if broker.metrics_port else None

    @property
    def bootstrap_servers(self) -> str:
        return ",".join(f"{self.host}:{broker.port}" for broker in self.brokers)

    def broker(self, broker_id: int) -> BrokerDescription:
        for broker in self.brokers:
            if broker.broker_id == broker_id:
                return broker
        known = ", ".join(str(broker.broker_id) for broker in self.brokers)
        raise ClusterError(f"broker {broker_id} does not exist; the cluster has {known}")


class ClusterDirectory:
    """Paths of one cluster."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path).absolute()

    @property
    def description_path(self) -> Path:
        return self.path / DESCRIPTION_NAME

    @property
    def metadata_path(self) -> Path:
        return self.path / "metadata.db"

    @property
    def metadata_socket(self) -> Path:
        return self._socket("metadata.sock")

    @property
    def control_socket(self) -> Path:
        return self._socket("control.sock")

    @property
    def zookeeper(self) -> Path:
        return self.path / "zookeeper"

    @property
    def supervisor_log(self) -> Path:
        return self.path / "supervisor.log"

    def data_of(self, broker_id: int) -> Path:
        return self.path / f"broker-{broker_id}"

    def log_of(self, broker_id: int) -> Path:
        return self.path / f"broker-{broker_id}.log"

    def _socket(self, name: str) -> Path:
        path = self.path / name
        if len(os.fsencode(path)) > _SOCKET_PATH_BYTES_MAX:
            raise ClusterError(
                f"{path} is too long for a socket path (at most {_SOCKET_PATH_BYTES_MAX} bytes): choose a shorter "
                "--directory"
            )
        return path

    # --- the description ---

    def exists(self) -> bool:
        return self.description_path.exists()

    def read(self) -> ClusterDescription:
        """The description; raises `ClusterError` if there is none that can be read."""
        try:
            values: dict[str, Any] = json.loads(self.description_path.read_text())
            brokers = [BrokerDescription(**broker) for broker in values.pop("brokers")]
            return ClusterDescription(brokers=brokers, **values)
        except FileNotFoundError:
            raise ClusterError(
                f"no cluster in {self.path}: start one with `tidelog cluster up`, or give its --directory"
            ) from None
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise ClusterError(f"{self.description_path} is not a valid cluster description: {error}") from error

    def write(self, description: ClusterDescription) -> None:
        """Replace the description: a reader finds the old one or the new one."""
        temporary = self.description_path.with_suffix(".tmp")
        temporary.write_text(json.dumps(asdict(description), indent=2) + "\n")
        os.replace(temporary, self.description_path)

    def forget(self) -> None:
        """Remove the description: the next `up` creates a cluster with what it is given."""
        self.description_path.unlink(missing_ok=True)
