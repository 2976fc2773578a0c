"""What a broker gets from the machine that it runs on: time, chance, the network, the metadata.

`Server` is given them once. `Surroundings.of_this_machine` are the real ones; the simulator has others, in which the
same seed gives the same run again.
"""

from __future__ import annotations

import os
import random
import resource
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from tidelog.broker.clock import SystemClock
from tidelog.config import BrokerConfig
from tidelog.metadata.embedded import METADATA_FILE_NAME, EmbeddedStore
from tidelog.metadata.store import Store
from tidelog.network.limits import UNLIMITED
from tidelog.network.listener import Listen, listen_tcp
from tidelog.storage.errors import StorageError
from tidelog.timing import Clock

_FILE_DESCRIPTORS_MIN: Final = 16
_FILE_DESCRIPTORS_MAX: Final = 1024
"""What is kept for files. Few are enough: the storage closes files that are idle when it needs to open others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """Injected wherever a broker would otherwise ask the machine."""

    clock: Clock
    processor_seconds: Callable[[], float]
    """By which long work is cut into slices."""
    random: random.Random
    listen: Listen
    socket_descriptors_max: Callable[[], int]
    """The number of descriptors that sockets may use up."""
    open_store: Callable[[BrokerConfig, Sequence[str]], Store]
    """A session with the metadata tree, given the settings and the log directories that can be used."""
    is_clustered: bool = False
    """Whether other brokers share the tree: a controller then decides, and leaders have followers."""

    @classmethod
    def of_this_machine(cls, clock: Clock | None = None) -> Surroundings:
        return cls(
            clock=clock or SystemClock(),
            processor_seconds=time.monotonic,
            random=random.SystemRandom(),
            listen=listen_tcp,
            socket_descriptors_max=_socket_descriptors,
            open_store=_open_embedded_store,
        )


def _open_embedded_store(config: BrokerConfig, directories: Sequence[str]) -> Store:
    return EmbeddedStore(_metadata_path(directories, config.log_dirs))


def _metadata_path(directories: Sequence[str], configured: Sequence[str]) -> str:
    """Where the metadata is: in the first of `log.dirs`, or in the one that has it.

    If the first is offline and no other has it, starting with an empty tree would look like losing every topic.
    """
    for directory in directories:
        path = os.path.join(directory, METADATA_FILE_NAME)
        if os.path.exists(path):
            return path
    first = os.path.abspath(configured[0])
    if first not in directories:
        raise StorageError(f"{first}, the first of log.dirs, holds the metadata and cannot be used: repair it first")
    return os.path.join(first, METADATA_FILE_NAME)


def _socket_descriptors() -> int:
    """All descriptors but a reserve, so that files can always be opened."""
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if limit == resource.RLIM_INFINITY:
        return UNLIMITED
    return limit - min(max(limit // 8, _FILE_DESCRIPTORS_MIN), _FILE_DESCRIPTORS_MAX)
