"""Topics by the admin clients, as one small interface: what is asked and which error code each topic got.

Each admin client raises in its own way; tests here want the codes side by side.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple, Protocol

import kafka
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.admin import NewTopic as AioNewTopic
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewTopic
from confluent_kafka.admin import NewPartitions as ConfluentNewPartitions
from kafka.admin import KafkaAdminClient

from tests.compat.clients.drivers.types import DEADLINE_S

DEFAULT = -1


class TopicSpec(NamedTuple):
    """A topic to be made."""

    name: str
    partitions: int = 1
    replication: int = 1
    config: Mapping[str, str] = {}
    assignments: Sequence[Sequence[int]] = ()


class Admin(Protocol):
    """An admin client."""

    @property
    def name(self) -> str: ...

    def create(self, servers: str, topics: Sequence[TopicSpec], *, validate_only: bool = False) -> dict[str, int]:
        """Error codes by name, in the order of the response."""

    def delete(self, servers: str, names: Sequence[str]) -> dict[str, int]:
        """Error codes by name."""

    def grow(self, servers: str, name: str, count: int) -> int:
        """Let a topic have `count` partitions; the error code."""

    def topics(self, servers: str) -> dict[str, int]:
        """All topics with their number of partitions."""


class ConfluentAdmin:
    """AdminClient of confluent-kafka: futures by topic."""

    name = "confluent-kafka"

    def create(self, servers: str, topics: Sequence[TopicSpec], *, validate_only: bool = False) -> dict[str, int]:
        admin = confluent_admin(servers)
        wanted = [
            NewTopic(
                t.name, len(t.assignments), config=dict(t.config), replica_assignment=list(map(list, t.assignments))
            )
            if t.assignments
            else NewTopic(t.name, t.partitions, t.replication, config=dict(t.config))
            for t in topics
        ]
        return {name: code_of(f.result) for name, f in admin.create_topics(wanted, validate_only=validate_only).items()}

    def delete(self, servers: str, names: Sequence[str]) -> dict[str, int]:
        admin = confluent_admin(servers)
        return {name: code_of(future.result) for name, future in admin.delete_topics(list(names)).items()}

    def grow(self, servers: str, name: str, count: int) -> int:
        admin = confluent_admin(servers)
        return code_of(admin.create_partitions([ConfluentNewPartitions(name, count)])[name].result)

    def topics(self, servers: str) -> dict[str, int]:
        listed = confluent_admin(servers).list_topics(timeout=DEADLINE_S).topics
        return {name: len(topic.partitions) for name, topic in listed.items()}


class KafkaPythonAdmin:
    """KafkaAdminClient of kafka-python: responses as dictionaries when it need not raise."""

    name = "kafka-python"

    def create(self, servers: str, topics: Sequence[TopicSpec], *, validate_only: bool = False) -> dict[str, int]:
        wanted = {
            t.name: {
                "num_partitions": DEFAULT if t.assignments else t.partitions,
                "replication_factor": DEFAULT if t.assignments else t.replication,
                "assignments": {index: list(brokers) for index, brokers in enumerate(t.assignments)},
                "configs": dict(t.config),
            }
            for t in topics
        }
        with kafka_python_admin(servers) as admin:
            result = admin.create_topics(wanted, validate_only=validate_only, raise_errors=False)
        return {topic["name"]: topic["error_code"] for topic in result["topics"]}

    def delete(self, servers: str, names: Sequence[str]) -> dict[str, int]:
        with kafka_python_admin(servers) as admin:
            result = admin.delete_topics(list(names), raise_errors=False)
        return {topic["name"]: topic["error_code"] for topic in result["topics"]}

    def grow(self, servers: str, name: str, count: int) -> int:
        with kafka_python_admin(servers) as admin:
            (result,) = admin.create_partitions({name: count}, raise_errors=False).results
        return result.error_code

    def topics(self, servers: str) -> dict[str, int]:
        with kafka_python_admin(servers) as admin:
            return {topic["name"]: len(topic["partitions"]) for topic in admin.describe_topics()}


class AiokafkaAdmin:
    """AIOKafkaAdminClient, with CreateTopics 3 and its relatives of that time."""

    name = "aiokafka"

    def create(self, servers: str, topics: Sequence[TopicSpec], *, validate_only: bool = False) -> dict[str, int]:
        wanted = [
            AioNewTopic(
                t.name,
                DEFAULT if t.assignments else t.partitions,
                DEFAULT if t.assignments else t.replication,
                replica_assignments={i: list(brokers) for i, brokers in enumerate(t.assignments)} or None,
                topic_configs=dict(t.config),
            )
            for t in topics
        ]
        response = _run(servers, lambda admin: admin.create_topics(wanted, validate_only=validate_only))
        return {name: code for name, code, _ in response.topic_errors}

    def delete(self, servers: str, names: Sequence[str]) -> dict[str, int]:
        return dict(_run(servers, lambda admin: admin.delete_topics(list(names))).topic_error_codes)

    def grow(self, servers: str, name: str, count: int) -> int:
        from aiokafka.admin import NewPartitions
        from aiokafka.errors import BrokerResponseError

        try:
            _run(servers, lambda admin: admin.create_partitions({name: NewPartitions(count)}))
        except BrokerResponseError as error:
            return error.errno
        return 0

    def topics(self, servers: str) -> dict[str, int]:
        described = _run(servers, lambda admin: admin.describe_topics())
        return {topic["topic"]: len(topic["partitions"]) for topic in described}


ADMINS: tuple[Admin, ...] = (ConfluentAdmin(), KafkaPythonAdmin(), AiokafkaAdmin())


def confluent_admin(servers: str) -> AdminClient:
    return AdminClient({"bootstrap.servers": servers, "log_level": 0})


@contextmanager
def kafka_python_admin(servers: str) -> Iterator[KafkaAdminClient]:
    admin = kafka.KafkaAdminClient(bootstrap_servers=servers)
    try:
        yield admin
    finally:
        admin.close()


def code_of(result: Callable[[float], object]) -> int:
    """The error code that a future of confluent-kafka ends with."""
    try:
        result(DEADLINE_S)
    except KafkaException as error:
        return error.args[0].code()
    return 0


def _run(servers: str, call: Callable[[AIOKafkaAdminClient], Awaitable[Any]]) -> Any:
    async def run() -> Any:
        admin = AIOKafkaAdminClient(bootstrap_servers=servers)
        await admin.start()
        try:
            return await call(admin)
        finally:
            await admin.close()

    return asyncio.run(asyncio.wait_for(run(), DEADLINE_S))
