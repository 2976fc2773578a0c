"""Two brokers in use, and the names and labels of their metrics."""

from __future__ import annotations

import asyncio
from pathlib import Path

from confluent_kafka import Consumer, Producer

from tests.compat.metrics.pages import OPENMETRICS, Page
from tests.integration.servers import Servers, until
from tidelog.client import Admin
from tidelog.client.aio.admin.types import DEFAULT_ENTITY, ClientQuotaEntity

Labels = dict[str, set[frozenset[str]]]

SETTINGS = {
    "metrics.listeners": "http://127.0.0.1:0",
    "default.replication.factor": 2,
    "offsets.topic.replication.factor": 2,
    "transaction.state.log.replication.factor": 2,
    "transaction.state.log.min.isr": 1,
    "transaction.state.log.num.partitions": 2,
    "group.initial.rebalance.delay.ms": 0,
}
RECORDS = 100
SECONDS = 60.0


def use(servers: str) -> None:
    """A transaction, and a group that reads it and commits."""
    producer = Producer({"bootstrap.servers": servers, "transactional.id": "names"})
    producer.init_transactions(SECONDS)
    producer.begin_transaction()
    for _ in range(RECORDS):
        producer.produce("names", b"a record")
    producer.commit_transaction(SECONDS)
    consumer = Consumer({"bootstrap.servers": servers, "group.id": "names", "auto.offset.reset": "earliest"})
    consumer.subscribe(["names"])
    read = 0
    while read < RECORDS:
        read += len(consumer.consume(RECORDS - read, SECONDS))
    consumer.commit(asynchronous=False)
    consumer.close()


def limit(servers: str) -> None:
    """A quota, so that there is something to count against one."""
    with Admin(bootstrap_servers=servers) as admin:
        admin.alter_client_quotas({ClientQuotaEntity(client_id=DEFAULT_ENTITY): {"producer_byte_rate": 1e9}})


async def label_names(directory: Path) -> Labels:
    """The names and labels of two brokers in use, in both formats."""
    cluster = Servers(directory, **SETTINGS)
    found: Labels = {}
    await cluster.start(1, 2)
    try:
        servers = ",".join(f"{host}:{port}" for host, port in (each.address for each in cluster.running.values()))
        await asyncio.to_thread(limit, servers)
        await asyncio.to_thread(use, servers)
        for server in cluster.running.values():
            assert server.metrics is not None
            # The cleaner is made a moment after the start.
            await until(lambda each=server: each.node.cleaning.metrics is not None)  # type: ignore[misc]
            for accept in ("*/*", OPENMETRICS):
                page = await asyncio.to_thread(Page.read, server.metrics.addresses[0], accept)
                for name, labels in page.label_names.items():
                    found.setdefault(name, set()).update(labels)
    finally:
        await cluster.stop()
    return found
