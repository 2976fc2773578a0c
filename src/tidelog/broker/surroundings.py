"""What a broker gets from the machine that it runs on: time, chance, the network, the metadata.

`Server` is given them once. `Surroundings.of_this_machine` are the real ones; the simulator has others, in which the
same seed gives the same run again.
"""

from __future__ import annotations

import random
import resource
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from tidelog.broker.hosting.cleaner import CleanerWorker, WorkerProcess
from tidelog.broker.stores import open_store
from tidelog.config import BrokerConfig
from tidelog.metadata.store import Store
from tidelog.network.limits import UNLIMITED
from tidelog.network.listener import Listen, Listener, listen_tcp
from tidelog.timing import Clock

_FILE_DESCRIPTORS_MIN: Final = 16
_FILE_DESCRIPTORS_MAX: Final = 1024
"""What is kept for files. Few are enough: the storage closes files that are idle when it needs to open others."""


class SystemClock:
    """Wall time for records, monotonic time for deadlines, both in whole milliseconds.

    Passed to every core that needs the time; no package below this one reads a clock itself.
    """

    __slots__ = ()

    def wall_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic_ms(self) -> int:
        return time.monotonic_ns() // 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """Injected wherever a broker would otherwise use the machine directly."""

    clock: Clock
    processor_seconds: Callable[[], float]
    """By which long work is cut into slices."""
    random: random.Random
    listen: Listen
    socket_descriptors_max: Callable[[], int]
    """The number of descriptors that sockets may use up."""
    open_store: Callable[[BrokerConfig, Sequence[str]], Store]
    """A session with the metadata tree, given the settings and the log directories that can be used."""
    new_cleaner_worker: Callable[[], CleanerWorker] = WorkerProcess
    shared_listeners: Mapping[str, Listener] = field(default_factory=dict)
    """By name: addresses that all processes of this machine accept from, beside this broker's own of that name."""
    is_clustered: bool = False
    """Whether other brokers share the tree: a controller then decides, and leaders have followers."""

    @classmethod
    def of_this_machine(
        cls, config: BrokerConfig | None = None, shared_listeners: Mapping[str, Listener] | None = None
    ) -> Surroundings:
        """The real ones; by `config` other brokers may share the metadata tree."""
        return cls(
            clock=SystemClock(),
            processor_seconds=time.monotonic,
            random=random.SystemRandom(),
            listen=listen_tcp,
            socket_descriptors_max=_socket_descriptors,
            open_store=open_store,
            shared_listeners=shared_listeners or {},
            is_clustered=config is not None and not config.is_alone,
        )


def _socket_descriptors() -> int:
    """All descriptors but a reserve, so that files can always be opened."""
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if limit == resource.RLIM_INFINITY:
        return UNLIMITED
    return limit - min(max(limit // 8, _FILE_DESCRIPTORS_MIN), _FILE_DESCRIPTORS_MAX)
