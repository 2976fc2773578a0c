"""Brokers to attack. Each is new, with a directory of its own: one that stopped serving is replaced by the next."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Final, NamedTuple

from benchmarks.apache_kafka import KafkaBroker, ZooKeeper
from benchmarks.processes import BrokerProcess, ProcessFailedError
from benchmarks.report import OURS
from benchmarks.tidelog_broker import TidelogBroker

SETTINGS: Final = {"group.initial.rebalance.delay.ms": "0", "auto.create.topics.enable": "false"}


class Contestant(NamedTuple):
    """How to start one kind of broker, and how long it may take to answer: the attacker, and the bystander."""

    start: Callable[[], contextlib.AbstractContextManager[BrokerProcess]]
    answer_seconds_max: float
    bystander_seconds_max: float
    is_single_threaded: bool
    """The work of a JVM is not that of its main thread."""


def contestants(name: str, directory: Path) -> Contestant:
    """Tidelog or Apache Kafka."""
    numbers = count()

    @contextlib.contextmanager
    def tidelog() -> Iterator[BrokerProcess]:
        with _stopping(TidelogBroker(directory / str(next(numbers)), SETTINGS)) as broker:
            yield broker

    @contextlib.contextmanager
    def kafka() -> Iterator[BrokerProcess]:
        here = directory / str(next(numbers))
        with (
            ZooKeeper(here / "zookeeper") as zookeeper,
            _stopping(KafkaBroker(here / "kafka", zookeeper, SETTINGS)) as broker,
        ):
            yield broker

    if name == OURS:
        return Contestant(tidelog, answer_seconds_max=20.0, bystander_seconds_max=30.0, is_single_threaded=True)
    return Contestant(kafka, answer_seconds_max=5.0, bystander_seconds_max=10.0, is_single_threaded=False)


@contextlib.contextmanager
def _stopping(broker: BrokerProcess) -> Iterator[BrokerProcess]:
    """A broker that is started, and ended whatever state it is in."""
    try:
        yield broker.start()
    finally:
        with contextlib.suppress(ProcessFailedError):
            broker.kill()
