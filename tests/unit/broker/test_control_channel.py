"""Queues from the controller to brokers: in order, until answered, dropped when the broker is gone."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

from tidelog.broker.topology.channels import BrokerUnreachable
from tidelog.broker.topology.control_channel import ControlChannels
from tidelog.controller.context import LiveBroker
from tidelog.metadata.tree import BrokerRegistration, Endpoint
from tidelog.wire.messages.leader_and_isr import LeaderAndIsrRequest
from tidelog.wire.messages.stop_replica import StopReplicaRequest
from tidelog.wire.messages.update_metadata import UpdateMetadataRequest
from tidelog.wire.schema import Message


class FakeChannels:
    """Notes what is sent; `unreachable` brokers fail, and `hold` keeps requests unanswered."""

    def __init__(self) -> None:
        self.sent: list[tuple[int, Message]] = []
        self.attempts = 0
        self.unreachable: set[int] = set()
        self.hold = False
        self.disconnected: list[int] = []

    async def send(self, broker_id: int, request: Message, *, purpose: str, timeout_ms: int | None = None) -> Message:
        self.attempts += 1
        if broker_id in self.unreachable:
            raise BrokerUnreachable(broker_id, "the test says so")
        self.sent.append((broker_id, request))
        while self.hold:
            await asyncio.sleep(0)
        return request  # the answer is not looked at

    def disconnect(self, broker_id: int, purpose: str | None = None) -> None:
        self.disconnected.append(broker_id)


def live(broker_id: int, epoch: int = 1) -> LiveBroker:
    endpoints = (Endpoint("CLIENT", "a", 1), Endpoint("INTERNAL", f"host{broker_id}", 9092))
    return LiveBroker(BrokerRegistration(broker_id, endpoints), epoch)


def run(work: Coroutine[Any, Any, None]) -> None:
    async def limited() -> None:
        async with asyncio.timeout(20):
            await work
        assert asyncio.all_tasks() == {asyncio.current_task()}, "the queues left tasks behind"

    asyncio.run(limited())


async def until(condition: Any) -> None:
    while not condition():
        await asyncio.sleep(0.001)


REQUESTS = [LeaderAndIsrRequest(), UpdateMetadataRequest(), StopReplicaRequest()]


def test_requests_to_a_broker_go_out_in_order_one_at_a_time() -> None:
    async def main() -> None:
        channels = FakeChannels()
        plane = ControlChannels(1, ("INTERNAL",), channels, None, timeout_ms=1000)
        answered: list[Message] = []
        plane.add_broker(live(2))
        channels.hold = True
        for request in REQUESTS:
            plane.send(2, request, answered.append)
        assert answered == []
        await until(lambda: channels.sent)
        assert [request for _, request in channels.sent] == REQUESTS[:1]
        channels.hold = False
        await until(lambda: len(answered) == 3)
        assert answered == REQUESTS
        plane.close()
        await plane.wait_closed()

    run(main())


def test_a_broker_that_cannot_be_reached_holds_up_no_other_and_is_tried_again() -> None:
    async def main() -> None:
        channels = FakeChannels()
        plane = ControlChannels(1, ("INTERNAL",), channels, None, timeout_ms=1000)
        channels.unreachable.add(2)
        answered: list[int] = []
        for broker_id in (2, 3):
            plane.add_broker(live(broker_id))
            plane.send(broker_id, REQUESTS[0], lambda _, each=broker_id: answered.append(each))  # type: ignore[misc]
        await until(lambda: answered == [3] and channels.attempts >= 3)
        channels.unreachable.clear()
        await until(lambda: answered == [3, 2])
        plane.close()
        await plane.wait_closed()

    run(main())


def test_what_waits_for_a_broker_that_is_gone_is_dropped() -> None:
    async def main() -> None:
        channels = FakeChannels()
        plane = ControlChannels(1, ("INTERNAL",), channels, None, timeout_ms=1000)
        channels.unreachable.add(2)
        answered: list[Message] = []
        plane.add_broker(live(2))
        plane.send(2, REQUESTS[0], answered.append)
        await until(lambda: channels.attempts)
        plane.remove_broker(2)
        plane.send(2, REQUESTS[1], answered.append)
        channels.unreachable.clear()
        plane.add_broker(live(2, epoch=2))
        plane.send(2, REQUESTS[2], answered.append)
        await until(lambda: answered)
        assert answered == REQUESTS[2:]
        assert channels.disconnected == [2]
        plane.close()
        await plane.wait_closed()

    run(main())


def test_requests_to_the_own_broker_take_no_connection() -> None:
    async def main() -> None:
        channels = FakeChannels()
        carried_out: list[Message] = []

        async def local(request: Message) -> Message:
            carried_out.append(request)
            return request

        plane = ControlChannels(1, ("INTERNAL",), channels, local, timeout_ms=1000)
        answered: list[Message] = []
        plane.add_broker(live(1))
        plane.send(1, REQUESTS[0], answered.append)
        await until(lambda: answered)
        assert carried_out == REQUESTS[:1]
        assert channels.sent == []
        plane.close()
        await plane.wait_closed()

    run(main())


def test_brokers_are_reached_by_the_listener_for_brokers() -> None:
    async def main() -> None:
        plane = ControlChannels(1, ("INTERNAL",), FakeChannels(), None, timeout_ms=1000)
        plane.add_broker(live(2))
        assert plane.endpoint_of(2) == Endpoint("INTERNAL", "host2", 9092)
        assert plane.endpoint_of(3) is None
        plane.close()
        await plane.wait_closed()

    run(main())


def test_brokers_without_a_listener_for_the_controller_are_reached_by_the_one_between_brokers() -> None:
    async def main() -> None:
        plane = ControlChannels(1, ("CONTROL", "INTERNAL"), FakeChannels(), None, timeout_ms=1000)
        plane.add_broker(live(2))
        endpoints = (Endpoint("INTERNAL", "host3", 9092), Endpoint("CONTROL", "host3", 9093))
        plane.add_broker(LiveBroker(BrokerRegistration(3, endpoints), 1))
        assert plane.endpoint_of(2) == Endpoint("INTERNAL", "host2", 9092)
        assert plane.endpoint_of(3) == Endpoint("CONTROL", "host3", 9093)
        plane.close()
        await plane.wait_closed()

    run(main())
