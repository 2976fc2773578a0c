"""Sends the requests of an admin: each item to the broker responsible for it, with retries.

An operation is a set of items (topics, partitions, groups …), a `Route` that returns the broker for each item, and a
function that sends one request for several items and returns a result or an error code for each. The driver groups the
items, sends the requests, keeps the results and retries retriable errors until the timeout.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Hashable
from typing import Final, Generic, TypeVar

from tidelog.client.aio.coordinators import CoordinatorType
from tidelog.client.aio.network import NetworkClient
from tidelog.client.aio.reactions import Reaction, reaction_to, refusal
from tidelog.client.backoff import Backoff
from tidelog.client.errors import (
    ApiError,
    BrokerUnavailable,
    ClientError,
    ConnectionLost,
    DeadlinePassed,
    UnsupportedByBroker,
)
from tidelog.client.types import TopicPartition
from tidelog.wire.errors import ErrorCode
from tidelog.wire.schema import Message

Item = TypeVar("Item", bound=Hashable)
Result = TypeVar("Result")
Response = TypeVar("Response", bound=Message)
Answers = dict[Item, Result | ApiError]
Ask = Callable[[int, list[Item]], Awaitable[Answers[Item, Result]]]
Route = Callable[[Item], Awaitable[int]]

ANY_NODE: Final = -1_000_000
"""Returned by a route if any broker will do."""

_ATTEMPTS_AT_UNKNOWN: Final = 3


class PartlyRefused(ClientError, Generic[Item, Result]):  # noqa: N818 - it says what happened
    """Some of several items failed: `errors` has their errors, `results` the others."""

    def __init__(self, errors: dict[Item, ApiError], results: dict[Item, Result]) -> None:
        failures = "; ".join(f"{item}: {error}" for item, error in list(errors.items())[:5])
        super().__init__(f"{len(errors)} of {len(errors) + len(results)} failed: {failures}")
        self.errors = errors
        self.results = results


class Driver:
    """Sends requests for the operations of an admin."""

    def __init__(self, client: NetworkClient, api_timeout_ms: int) -> None:
        self.client = client
        self.api_timeout_ms = api_timeout_ms
        self._backoff = Backoff(client.settings.retry_backoff_ms, client.settings.retry_backoff_max_ms)

    def at(self, node_id: int) -> "OneBroker":
        """A driver that sends everything to one broker."""
        return OneBroker(self.client, self.api_timeout_ms, node_id)

    # Routes.

    async def to_any(self, _item: object) -> int:
        """The least busy broker."""
        return ANY_NODE

    async def to_controller(self, _item: object) -> int:
        """The controller."""
        if self.client.metadata.controller is None:
            await self.client.refresh()
        controller = self.client.metadata.controller
        if controller is None:
            raise ApiError(ErrorCode.NOT_CONTROLLER, "the cluster has no controller")
        return controller.node_id

    async def to_leader(self, where: TopicPartition) -> int:
        """The leader of a partition; its topic must be in the metadata, see `know_topics`."""
        known = self.client.metadata.topic(where.topic)
        if known is None or known.error_code or where.partition >= len(known.partitions):
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"{where} does not exist")
        leader = self.client.metadata.leader(*where)
        if leader is None:
            raise ApiError(ErrorCode.LEADER_NOT_AVAILABLE, f"{where} has no leader now")
        return leader.node_id

    async def to_broker(self, node_id: int) -> int:
        """A broker by its id."""
        if node_id not in self.client.metadata.nodes:
            await self.client.refresh()
        if node_id not in self.client.metadata.nodes:
            known = ", ".join(str(each) for each in sorted(self.client.metadata.nodes))
            raise ApiError(ErrorCode.INVALID_REQUEST, f"no broker {node_id}; the cluster has {known}")
        return node_id

    async def to_group_coordinator(self, group_id: str) -> int:
        """The coordinator of a group."""
        return (await self.client.find_coordinator(CoordinatorType.GROUP, group_id, self.api_timeout_ms)).node_id

    async def to_transaction_coordinator(self, transactional_id: str) -> int:
        """The coordinator of a transactional id."""
        kind = CoordinatorType.TRANSACTION
        return (await self.client.find_coordinator(kind, transactional_id, self.api_timeout_ms)).node_id

    # Asking.

    async def send_own(self, node_id: int, request: Message, response: type[Response], lacks: str) -> Response:
        """Send a message that only Tidelog's brokers know. `lacks` says of others what they do not have."""
        connection = await self.client.link(node_id).acquire()
        # Brokers do not list these APIs, so that other clients see exactly what a Kafka broker lists.
        connection.served.setdefault(request.api_key, (0, 0))
        try:
            return await connection.send(request, response)
        except ConnectionLost as error:
            raise UnsupportedByBroker(
                f"the broker at {connection.address} {lacks}: it closed the connection, "
                "as brokers other than Tidelog do"
            ) from error

    async def run(self, items: Collection[Item], route: Route[Item], ask: Ask[Item, Result]) -> dict[Item, Result]:
        """The result of each item. Raises ApiError if the only item fails, PartlyRefused if some of several fail."""
        results: dict[Item, Result] = {}
        errors: dict[Item, ApiError] = {}
        pending = list(dict.fromkeys(items))
        deadline_ms = self.client.now_ms() + self.api_timeout_ms
        failures = 0
        while pending:
            answers = await self._round(pending, route, ask, deadline_ms)
            pending = []
            for item, answer in answers.items():
                if not isinstance(answer, ApiError):
                    results[item] = answer
                elif self._is_worth_retrying(item, answer, failures):
                    pending.append(item)
                    errors[item] = answer
                else:
                    errors[item] = answer
            failures += 1
            if pending:
                await self._pause(failures, deadline_ms, errors[pending[0]])
        return _all_or_raise(results, errors)

    async def _round(
        self, items: list[Item], route: Route[Item], ask: Ask[Item, Result], deadline_ms: int
    ) -> Answers[Item, Result]:
        """One attempt for all items: grouped by broker, all brokers at once."""
        answers: Answers[Item, Result] = {}
        groups: dict[int, list[Item]] = {}
        for item in items:
            try:
                groups.setdefault(await route(item), []).append(item)
            except ApiError as error:
                answers[item] = error
        limit_s = max(deadline_ms - self.client.now_ms(), 1) / 1000
        try:
            async with asyncio.timeout(limit_s):
                for found in await asyncio.gather(*[self._ask(node, some, ask) for node, some in groups.items()]):
                    answers.update(found)
        except TimeoutError:
            raise DeadlinePassed(f"no response within default.api.timeout.ms={self.api_timeout_ms}") from None
        return answers

    async def _ask(self, node_id: int, items: list[Item], ask: Ask[Item, Result]) -> Answers[Item, Result]:
        """Send one request. A lost connection is a retriable error of all items."""
        try:
            if node_id == ANY_NODE:
                node_id = self.client.by_load()[0].node_id
            found = await ask(node_id, items)
        except BrokerUnavailable as error:
            return {item: ApiError(ErrorCode.NETWORK_EXCEPTION, str(error)) for item in items}
        except ApiError as error:
            return dict.fromkeys(items, error)
        return {item: found[item] if item in found else _missing() for item in items}

    def _is_worth_retrying(self, item: Item, error: ApiError, failures: int) -> bool:
        reaction = reaction_to(error)
        # For an admin UNKNOWN_TOPIC_OR_PARTITION is an answer. Only of a topic just made, partitions may take a moment.
        is_in_the_making = isinstance(item, TopicPartition) and failures < _ATTEMPTS_AT_UNKNOWN
        if error.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION and not is_in_the_making:
            return False
        if reaction is Reaction.REFRESH_METADATA or error.code is ErrorCode.NETWORK_EXCEPTION:
            self.client.request_refresh()
        if (reaction is Reaction.FIND_COORDINATOR or error.code is ErrorCode.NETWORK_EXCEPTION) and isinstance(
            item, str
        ):
            self.client.forget_coordinator(CoordinatorType.GROUP, item)
            self.client.forget_coordinator(CoordinatorType.TRANSACTION, item)
        return reaction.is_retriable and error.code is not ErrorCode.ELECTION_NOT_NEEDED

    async def _pause(self, failures: int, deadline_ms: int, error: ApiError) -> None:
        wait_ms = self._backoff.after(failures)
        if self.client.now_ms() + wait_ms > deadline_ms:
            raise DeadlinePassed(f"not done within default.api.timeout.ms={self.api_timeout_ms}: {error}") from error
        await asyncio.sleep(wait_ms / 1000)


class OneBroker(Driver):
    """Sends each operation to one broker, once: the answer is what that broker knows now.

    Raises BrokerUnavailable if the broker cannot be reached.
    """

    def __init__(self, client: NetworkClient, api_timeout_ms: int, node_id: int) -> None:
        super().__init__(client, api_timeout_ms)
        self._node_id = node_id

    async def run(self, items: Collection[Item], route: Route[Item], ask: Ask[Item, Result]) -> dict[Item, Result]:
        """The result of each item; errors as `Driver.run` raises them."""
        del route
        asked = list(dict.fromkeys(items))
        answers = await ask(self._node_id, asked) if asked else {}
        results: dict[Item, Result] = {}
        errors: dict[Item, ApiError] = {}
        for item in asked:
            answer = answers[item] if item in answers else _missing()
            if isinstance(answer, ApiError):
                errors[item] = answer
            else:
                results[item] = answer
        return _all_or_raise(results, errors)


def _missing() -> ApiError:
    return ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, "it is missing in the broker's response")


def _all_or_raise(results: dict[Item, Result], errors: dict[Item, ApiError]) -> dict[Item, Result]:
    errors = {item: error for item, error in errors.items() if item not in results}
    if len(errors) == 1 and not results:
        raise next(iter(errors.values()))
    if errors:
        raise PartlyRefused(errors, results)
    return results


def answer_of(code: int, message: str | None, result: Result, what: object) -> Result | ApiError:
    """`result`, or the error that the broker returned."""
    return result if code == ErrorCode.NONE else refusal(code, what, message)
