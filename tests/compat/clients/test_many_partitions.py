"""Two thousand partitions: made, described, written and read, and there again after a restart."""

import os
import shutil
import tempfile
from collections.abc import Iterator

import pytest

from tests.compat.clients.admins import ADMINS, Admin, TopicSpec
from tests.compat.clients.batches import numbered
from tests.compat.clients.brokers import Broker
from tests.compat.clients.drivers import Driver

COUNT = 2000
TOPIC = "wide"
MEMORY = "/dev/shm"
SOME = (0, 1, 777, 1998, 1999)


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    """In memory where that can be had: ten thousand files are made and removed, which is not what is tested."""
    directory = tempfile.mkdtemp(dir=MEMORY if os.path.isdir(MEMORY) else None)
    with Broker(process=True, data_dir=directory) as running:
        assert ADMINS[0].create(running.bootstrap_servers, [TopicSpec(TOPIC, COUNT)]) == {TOPIC: 0}
        yield running
    shutil.rmtree(directory)


@pytest.mark.parametrize("admin", ADMINS, ids=lambda admin: admin.name)
def test_all_partitions_are_described(admin: Admin, servers: str) -> None:
    assert admin.topics(servers)[TOPIC] == COUNT


def test_any_of_them_is_written_and_read(client: Driver, servers: str) -> None:
    for partition in SOME:
        (offset, *_) = client.produce(servers, TOPIC, numbered(3), partition=partition)
        records = client.consume(servers, TOPIC, 3, partition=partition, offset=offset)
        assert [record.value for record in records] == [b"0", b"1", b"2"]


def test_they_are_there_after_a_restart(broker: Broker, client: Driver) -> None:
    servers = broker.bootstrap_servers
    before = client.watermarks(servers, TOPIC, partition=1999)
    broker.restart()
    assert client.watermarks(servers, TOPIC, partition=1999) == before
    assert client.produce(servers, TOPIC, numbered(1), partition=1999) == [before[1]]
