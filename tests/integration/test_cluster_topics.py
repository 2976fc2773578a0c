"""Three brokers with controllers of their own: topics are made, moved, led and deleted as clients ask."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, ElectionType, KafkaException, Producer, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

from tests.integration.raw_client import RawClient
from tests.integration.servers import Servers, member_of, until
from tests.unit.present import present
from tidelog.metadata.image import INTERNAL_TOPICS
from tidelog.metadata.tree import ReplicaAssignment
from tidelog.storage.errors import LogDirFailure
from tidelog.wire.errors import ErrorCode
from tidelog.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from tidelog.wire.messages.list_partition_reassignments import ListPartitionReassignmentsRequest
from tidelog.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from tidelog.wire.schema import Message


def run(directory: Path, play: Callable[[Servers], Awaitable[None]], **config: object) -> None:
    """Play with three brokers that are up, and stop them whatever happens."""

    async def main() -> None:
        servers = Servers(directory, **config)
        try:
            async with asyncio.timeout(100):
                await servers.start(1, 2, 3)
                await play(servers)
        finally:
            await servers.stop()
        assert not [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]

    asyncio.run(main())


def create(servers: str, *topics: NewTopic) -> None:
    admin = AdminClient({"bootstrap.servers": servers})
    for future in admin.create_topics(list(topics), operation_timeout=30).values():
        future.result(40)


def produce(servers: str, topic: str, count: int, **settings: Any) -> None:
    failures: list[object] = []
    producer = Producer({"bootstrap.servers": servers, "acks": "all", "message.timeout.ms": 30_000, **settings})
    for value in range(count):
        producer.produce(topic, str(value), on_delivery=lambda error, _: failures.append(error))
    assert producer.flush(40) == 0
    assert not any(failures)


def consume(servers: str, topic: str, count: int, group: str = "readers") -> list[int]:
    consumer = Consumer({"bootstrap.servers": servers, "group.id": group, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    values = []
    for _ in range(400):
        message = consumer.poll(0.1)
        if message is not None and message.error() is None:
            values.append(int(present(message.value())))
            if len(values) == count:
                break
    consumer.close()
    return sorted(values)


def test_a_topic_is_created_used_grown_and_deleted(tmp_path: Path) -> None:
    async def play(servers: Servers) -> None:
        addresses = servers.addresses()
        await asyncio.to_thread(create, addresses, NewTopic("orders", 3, 3))
        await until(lambda: all(servers.is_led("orders", {1, 2, 3}, index) for index in range(3)))
        await asyncio.to_thread(produce, addresses, "orders", 100, **{"enable.idempotence": True})
        assert await asyncio.to_thread(consume, addresses, "orders", 100) == list(range(100))

        admin = AdminClient({"bootstrap.servers": addresses})
        grown = admin.create_partitions([NewPartitions("orders", 5)], operation_timeout=30)
        await asyncio.to_thread(grown["orders"].result, 40)
        await until(lambda: servers.is_led("orders", {1, 2, 3}, 4))

        with pytest.raises(KafkaException, match="already exists"):
            await asyncio.to_thread(create, addresses, NewTopic("orders", 1, 1))
        deleted = admin.delete_topics(["orders"], operation_timeout=30)
        await asyncio.to_thread(deleted["orders"].result, 40)
        await until(lambda: "/brokers/topics/orders" not in servers.tree.nodes)

    run(tmp_path, play)
    assert not [path for path in tmp_path.glob("broker-*/orders-*") if not path.name.endswith("-delete")]


def test_brokers_and_their_controller_use_the_listener_that_is_theirs(tmp_path: Path) -> None:
    """`control.plane.listener.name`. What the controller sends, and AlterPartition, comes by no other listener."""

    def listeners(servers: Servers) -> dict[int, set[str]]:
        """By broker: the listeners that a controller is connected to."""
        found: dict[int, set[str]] = {}
        for broker_id, server in servers.running.items():
            sessions = [each.session for each in server.node.socket_server.connections.values()]
            found[broker_id] = {
                session.listener for session in sessions if (session.client_id or "").startswith("controller-")
            }
        return found

    async def play(servers: Servers) -> None:
        addresses = servers.addresses()
        await asyncio.to_thread(create, addresses, NewTopic("orders", 1, 3))
        await until(lambda: servers.is_led("orders", {1, 2, 3}))
        await asyncio.to_thread(produce, addresses, "orders", 10, **{"enable.idempotence": True})
        active = servers.controller.active_id
        others = {1, 2, 3} - {active}
        assert listeners(servers) == {active: set(), **{other: {"CONTROL"} for other in others}}
        last = max(others)
        await servers.stop(last)
        await until(lambda: servers.is_led("orders", {1, 2, 3} - {last}))
        await servers.start(last)
        await until(lambda: servers.is_led("orders", {1, 2, 3}))
        to_controller = servers.running[active].node.socket_server.connections.values()
        assert "CONTROL" in {each.session.listener for each in to_controller}, "the ISR was changed by AlterPartition"

    run(
        tmp_path,
        play,
        **{
            "listeners": "PLAINTEXT://127.0.0.1:0,CONTROL://127.0.0.1:0",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROL:PLAINTEXT",
            "control.plane.listener.name": "CONTROL",
        },
    )


def test_topics_that_clients_name_are_created_by_any_broker_and_led_a_moment_later(tmp_path: Path) -> None:
    """The first answer is LEADER_NOT_AVAILABLE, which clients retry: after UNKNOWN_TOPIC_OR_PARTITION some give up."""

    def ask(port: int, *names: str) -> dict[str, tuple[ErrorCode, int]]:
        """Of each topic its error and how many of its partitions have leaders."""
        topics = [MetadataRequestTopic(name=name) for name in names]
        with RawClient(port) as client:
            answer = client.call(MetadataRequest(topics=topics, allow_auto_topic_creation=True), 12)
        led = {each.name: sum(partition.leader_id >= 0 for partition in each.partitions) for each in answer.topics}
        return {each.name: (ErrorCode(each.error_code), led[each.name]) for each in answer.topics}

    async def play(servers: Servers) -> None:
        first: list[tuple[ErrorCode, int]] = []
        for broker_id, server in servers.running.items():
            port, named = server.address[1], f"named-{broker_id}"
            answers = await asyncio.to_thread(ask, port, named, "a b")
            first.append(answers[named])
            assert answers["a b"] == (ErrorCode.INVALID_TOPIC_EXCEPTION, 0)
            while (answer := (await asyncio.to_thread(ask, port, named))[named]) != (ErrorCode.NONE, 1):
                assert answer == (ErrorCode.LEADER_NOT_AVAILABLE, 0)
        assert first == [(ErrorCode.LEADER_NOT_AVAILABLE, 0)] * 3
        for internal in INTERNAL_TOPICS:
            port = servers.running[3].address[1]
            assert (await asyncio.to_thread(ask, port, internal))[internal] == (ErrorCode.LEADER_NOT_AVAILABLE, 0)
            await until(lambda name=internal: all(servers.shown(name).values()))  # type: ignore[misc]
        await asyncio.to_thread(produce, servers.addresses(), "named", 10)
        await until(lambda: servers.is_led("named", {1, 2, 3}))

    run(tmp_path, play)


def test_a_broker_that_stops_is_replaced_and_catches_up(tmp_path: Path) -> None:
    """Each broker in turn, the controller among them, while everything is acknowledged by all in sync."""

    async def play(servers: Servers) -> None:
        await asyncio.to_thread(create, servers.addresses(), NewTopic("orders", 3, 3))
        epochs = []
        for broker_id in (1, 2, 3):
            await servers.stop(broker_id)
            others = {1, 2, 3} - {broker_id}
            await until(lambda others=others: all(servers.is_led("orders", others, index) for index in range(3)))  # type: ignore[misc]
            epochs.append(servers.controller.epoch)
            await asyncio.to_thread(produce, servers.addresses(), "orders", 50)
            await servers.start(broker_id)
            await until(lambda: all(servers.is_led("orders", {1, 2, 3}, index) for index in range(3)))
        assert epochs == sorted(epochs)
        assert epochs[-1] > 1, "the controller was stopped once"
        assert len(await asyncio.to_thread(consume, servers.addresses(), "orders", 150)) == 150

    run(tmp_path, play)


def test_partitions_move_and_preferred_leaders_are_elected(tmp_path: Path) -> None:
    async def play(servers: Servers) -> None:
        addresses = servers.addresses()
        await asyncio.to_thread(create, addresses, NewTopic("orders", 1, replica_assignment=[[1, 2]]))
        await asyncio.to_thread(produce, addresses, "orders", 100)
        await move(servers)
        confluent = AdminClient({"bootstrap.servers": addresses})
        partition = TopicPartition("orders", 0)
        elected = confluent.elect_leaders(ElectionType.PREFERRED, [partition])
        outcome = await asyncio.to_thread(elected.result, 40)
        assert outcome[partition] is None
        await until(lambda: {shown and shown.leader_id for shown in servers.shown("orders").values()} == {1})
        described = confluent.describe_topics(TopicCollection(["orders"]))["orders"]
        topic = await asyncio.to_thread(described.result, 40)
        assert [node.id for node in topic.partitions[0].replicas] == [1, 3]
        assert await asyncio.to_thread(consume, addresses, "orders", 100) == list(range(100))

    async def move(servers: Servers) -> None:
        """From brokers 1 and 2 to 3 and 1, and then to 1 and 3: broker 3 leads in between."""
        await reassign(servers, [3, 2])
        await until(lambda: servers.is_led("orders", {2, 3}))
        await reassign(servers, [1, 3])
        await until(lambda: servers.is_led("orders", {1, 3}))
        await until(lambda: not servers.controller.context.reassigning)
        assert servers.controller.context.topics["orders"] == [ReplicaAssignment((1, 3))]
        listing: Any = await ask_controller(servers, ListPartitionReassignmentsRequest())
        assert listing.topics == []

    async def reassign(servers: Servers, target: list[int]) -> None:
        topic = ReassignableTopic(name="orders", partitions=[ReassignablePartition(replicas=target)])
        response: Any = await ask_controller(servers, AlterPartitionReassignmentsRequest(topics=[topic]))
        assert [each.error_code for each in response.responses[0].partitions] == [0]

    async def ask_controller(servers: Servers, request: Message) -> Message:
        controller_id = servers.controller.active_id
        channels = member_of(servers.running[controller_id]).channels
        return await channels.send(controller_id, request, purpose="test")

    run(tmp_path, play, **{"auto.leader.rebalance.enable": "false"})


def test_replicas_move_between_log_directories_while_leaders_change(tmp_path: Path) -> None:
    """Leader and followers at once, so slowly that each broker leads once on the way; nothing is lost or differs."""

    def directory(servers: Servers, broker_id: int) -> str:
        return str(servers.running[broker_id].node.replica_manager.partition("orders", 0).log.parent_directory)

    async def play(servers: Servers) -> None:
        addresses = servers.addresses()
        await asyncio.to_thread(create, addresses, NewTopic("orders", 1, replica_assignment=[[1, 2, 3]]))
        await asyncio.to_thread(produce, addresses, "orders", 150)
        targets = {}
        for broker_id, server in servers.running.items():
            node = server.node
            node.replication_quotas.alter_log_dirs.set_rate(100)
            (targets[broker_id],) = set(node.log_manager.live_directories()) - {directory(servers, broker_id)}
            node.log_dir_moves.move("orders", 0, targets[broker_id])
        for broker_id in (1, 2):
            await servers.stop(broker_id)
            await until(lambda others={1, 2, 3} - {broker_id}: servers.is_led("orders", others))  # type: ignore[misc]
            await asyncio.to_thread(produce, servers.addresses(), "orders", 50)
            await servers.start(broker_id)
            await until(lambda: servers.is_led("orders", {1, 2, 3}))
        assert any(directory(servers, broker_id) != target for broker_id, target in targets.items()), "it is slow"
        for server in servers.running.values():
            server.node.replication_quotas.alter_log_dirs.set_rate(2**63 - 1)
        await until(lambda: all(directory(servers, broker_id) == target for broker_id, target in targets.items()))
        await asyncio.to_thread(produce, servers.addresses(), "orders", 50)
        assert len(await asyncio.to_thread(consume, servers.addresses(), "orders", 300)) == 300
        await until(lambda: servers.is_led("orders", {1, 2, 3}))
        logs = [server.node.replica_manager.partition("orders", 0).log for server in servers.running.values()]
        await until(lambda: len({log.log_end_offset for log in logs}) == 1)
        files = [Path(log.directory) / "00000000000000000000.log" for log in logs]
        assert len({file.read_bytes() for file in files}) == 1, "the replicas are equal, byte for byte"

    run(tmp_path, play, **{"auto.leader.rebalance.enable": "false"})


def test_replicas_in_a_log_directory_that_fails_are_led_elsewhere(tmp_path: Path) -> None:
    """The broker goes on with its other directory; the controller learns what is lost from its answers."""

    async def play(servers: Servers) -> None:
        topics = [NewTopic(name, 1, replica_assignment=[[1, 2, 3]]) for name in ("one", "other")]
        await asyncio.to_thread(create, servers.addresses(), *topics)
        node = servers.running[1].node
        one, other = (node.replica_manager.partition(name, 0).log.directory for name in ("one", "other"))
        assert Path(one).parent != Path(other).parent, "a broker spreads its logs over its directories"
        node.replica_manager.fail_log_dir(LogDirFailure(str(Path(one).parent), OSError(5, "the test says so")))
        await until(lambda: servers.is_led("one", {2, 3}))
        assert servers.is_led("other", {1, 2, 3})
        await asyncio.to_thread(produce, servers.addresses(), "one", 10)

    run(tmp_path, play)


def test_brokers_whose_sessions_end_come_back_as_other_lives(tmp_path: Path) -> None:
    """Each broker in turn, the controller among them; none of them stops serving."""

    async def play(servers: Servers) -> None:
        await asyncio.to_thread(create, servers.addresses(), NewTopic("orders", 3, 3))
        await until(lambda: all(servers.is_led("orders", {1, 2, 3}, index) for index in range(3)))
        for broker_id in (1, 2, 3):
            member = member_of(servers.running[broker_id])
            epoch = member.broker_epoch
            servers.expire(broker_id)
            await until(lambda: member.broker_epoch > epoch)  # noqa: B023 - awaited before the next round
            await until(lambda: all(servers.is_led("orders", {1, 2, 3}, index) for index in range(3)))
            await asyncio.to_thread(produce, servers.addresses(), "orders", 30)
        assert servers.controller.epoch > 1
        assert len(await asyncio.to_thread(consume, servers.addresses(), "orders", 90)) == 90

    run(tmp_path, play)


def test_a_controller_that_is_cut_off_from_the_tree_is_replaced(tmp_path: Path) -> None:
    async def play(servers: Servers) -> None:
        await asyncio.to_thread(create, servers.addresses(), NewTopic("orders", 3, 3))
        old = servers.controller.active_id
        servers.suspend(old)
        servers.expire(old)
        others = [member_of(server).controller for each, server in servers.running.items() if each != old]
        await until(lambda: any(controller.is_active for controller in others))
        servers.resume(old)
        await until(lambda: not member_of(servers.running[old]).controller.is_active)
        await until(lambda: all(servers.is_led("orders", {1, 2, 3}, index) for index in range(3)))
        assert servers.controller.epoch == 2
        await asyncio.to_thread(produce, servers.addresses(), "orders", 30)

    run(tmp_path, play)
