"""Brokers on directories: a new one, or one that another broker has written.

`TIDELOG_COMPAT_TARGET=kafka` puts Apache Kafka in our place. That tests the tests: what Kafka's tools say of Kafka's
broker and files is what they must say of ours.
"""

import os
from collections.abc import Callable, Mapping
from pathlib import Path

from benchmarks.apache_kafka import KafkaBroker, ZooKeeper
from benchmarks.processes import BrokerProcess
from tests.compat.kafka_tools.samples import WrittenLog
from tests.compat.kafka_tools.zookeeper_nodes import write_nodes

MakeBroker = Callable[[Path, Mapping[str, str]], BrokerProcess]
OpenDirectory = Callable[[WrittenLog, Path], BrokerProcess]


def tests_are_under_test() -> bool:
    return os.environ.get("TIDELOG_COMPAT_TARGET") == "kafka"


def new_kafka(zookeeper: ZooKeeper, home: Path, settings: Mapping[str, str]) -> KafkaBroker:
    """Kafka as a cluster of its own, below its own root node."""
    root = {"zookeeper.connect": f"{zookeeper.connect_string}/{home.name}"}
    return KafkaBroker(home, zookeeper, {**root, **settings})


def kafka_on(zookeeper: ZooKeeper, home: Path, log: WrittenLog) -> KafkaBroker:
    """Kafka on a directory that it has not written, or whose ZooKeeper it has lost."""
    write_nodes(zookeeper, f"/{home.name}", log)
    return new_kafka(zookeeper, home, {"log.dirs": str(log.directory)})
