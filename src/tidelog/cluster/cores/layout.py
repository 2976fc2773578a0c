"""What each core of a machine gets of the machine's settings: ports, directories and ids of its own.

The first core has the broker id and the log directories that the machine would have with one core; the others have
directories below those, and broker ids that are generated and stay in their `meta.properties`. So a machine begins to
use more cores, or fewer, with the data that it has.

    /var/lib/tidelog            log directory of core 1, and the metadata of a machine that is alone
    /var/lib/tidelog/.cores/2   log directory of core 2

Core N listens on ports of its own, `tidelog.cores.port.step` times N above those of `listeners`, and says so to
clients; connections to the addresses of `listeners` themselves are taken by any core.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import Final

from tidelog.config import BrokerConfig, ConfigError, Listener
from tidelog.storage.directories.log_directory import CORES_DIRECTORY
from tidelog.storage.directories.meta_properties import read_meta_properties

FIRST: Final = 1
_PORT_MAX: Final = 65_535
_AUTO: Final = "auto"


def core_count(config: BrokerConfig) -> int:
    """How many cores serve; `auto` is what this process may run on."""
    if config.tidelog_cores != _AUTO:
        return int(config.tidelog_cores)
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def directory_of(log_dir: str, core: int) -> str:
    """The log directory of a core within one of the machine's."""
    return log_dir if core == FIRST else os.path.join(log_dir, CORES_DIRECTORY, str(core))


def directories_of(config: BrokerConfig, core: int) -> list[str]:
    """The log directories of a core."""
    return [directory_of(log_dir, core) for log_dir in config.log_dirs]


def cores_with_data(config: BrokerConfig) -> list[int]:
    """The cores that have log directories, the first among them, in order."""
    cores = {FIRST}
    for log_dir in config.log_dirs:
        try:
            names = os.listdir(os.path.join(log_dir, CORES_DIRECTORY))
        except (FileNotFoundError, NotADirectoryError):
            continue
        cores.update(int(name) for name in names if name.isascii() and name.isdigit())
    return sorted(cores)


def broker_id_of(config: BrokerConfig, core: int) -> int | None:
    """The broker id that a core has served with; None if it never did."""
    for directory in directories_of(config, core):
        properties = read_meta_properties(directory) if os.path.isdir(directory) else None
        if properties is not None and properties.broker_id >= 0:
            return properties.broker_id
    return None


def settings_of(config: BrokerConfig, core: int, count: int, metadata_socket: str | None) -> dict[str, str]:
    """The settings of a core's broker. `metadata_socket` is None where the metadata is in ZooKeeper."""
    step = core * config.tidelog_cores_port_step
    settings = dict(config.originals)
    settings.pop("log.dir", None)
    settings["tidelog.cores"] = "1"
    settings["log.dirs"] = ",".join(directories_of(config, core))
    settings["listeners"] = _shifted(config.parsed_listeners, step)
    if config.advertised_listeners is not None:
        settings["advertised.listeners"] = _shifted(config.parsed_advertised_listeners, step)
    if config.metrics_listeners:
        settings["metrics.listeners"] = _shifted(config.parsed_metrics_listeners, step).replace("HTTP://", "http://")
    if core != FIRST:
        settings["broker.id"] = "-1"
    settings["broker.rack"] = rack_of(config)
    settings["num.partitions"] = str(max(config.num_partitions, count))
    if metadata_socket is not None:
        settings["metadata.socket"] = metadata_socket
        settings |= _ALONE
    return settings


_ALONE: Final = {
    # Another replica on the same machine would be lost together with the first.
    "offsets.topic.replication.factor": "1",
    "offsets.commit.required.acks": "-1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
}


def rack_of(config: BrokerConfig) -> str:
    """The machine is what fails: replicas go to others, unless the racks are named."""
    return config.broker_rack or config.parsed_advertised_listeners[0].host or "127.0.0.1"


def check_cores(config: BrokerConfig, count: int) -> None:
    """Raise ConfigError if so many cores cannot have ports or ids of their own."""
    if not config.broker_id_generation_enable:
        raise ConfigError(
            f"tidelog.cores={count} needs broker.id.generation.enable=true: the ids of all cores but the first are "
            "generated"
        )
    if config.metadata_socket is not None:
        raise ConfigError(f"tidelog.cores={count}: the cores share a metadata.socket of their own; leave it out")
    taken: dict[int, str] = {}
    for port, what in _ports(config, count):
        if port > _PORT_MAX:
            raise ConfigError(f"{what} would be port {port}: lower tidelog.cores.port.step or the port")
        if port in taken:
            raise ConfigError(f"{taken[port]} and {what} would both be port {port}: change tidelog.cores.port.step")
        taken[port] = what


def _ports(config: BrokerConfig, count: int) -> Iterable[tuple[int, str]]:
    for listener in (*config.parsed_listeners, *config.parsed_metrics_listeners):
        for core in range(count + 1):
            if listener.port:
                whose = f" of core {core}" if core else ""
                yield listener.port + core * config.tidelog_cores_port_step, f"{listener}{whose}"


def _shifted(listeners: Sequence[Listener], step: int) -> str:
    return ",".join(str(each._replace(port=each.port + step if each.port else 0)) for each in listeners)
