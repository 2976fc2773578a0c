"""How an admin asks: each item to the broker that can answer for it, again while the cluster is on the move.

An operation is a set of items (topics, partitions, groups …), a `Route` that says whom to ask about each, and a
function that asks one broker about several and gives back a result or a code for each. The driver groups, asks, keeps
what is answered and asks again for what may succeed later, until the time is up.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Hashable
from typing import Final, Generic, TypeVar

from tidelog.client.aio.backoff import Backoff
from tidelog.client.aio.coordinators import CoordinatorType
from tidelog.client.aio.network import NetworkClient
from tidelog.client.aio.reactions import Reaction, reaction_to, refusal
from tidelog.client.errors import ApiError, BrokerUnavailable, ClientError, DeadlinePassed
from tidelog.client.types import TopicPartition
from tidelog.wire.errors import ErrorCode

Item = TypeVar("Item", bound=Hashable)
Result = TypeVar("Result")
Answers = dict[Item, Result | ApiError]
Ask = Callable[[int, list[Item]], Awaitable[Answers[Item, Result]]]
Route = Callable[[Item], Awaitable[int]]

ANY_NODE: Final = -1_000_000
"""A route's way of saying that it does not matter whom to ask."""

_ATTEMPTS_AT_UNKNOWN: Final = 3


class PartlyRefused(ClientError, Generic[Item, Result]):  # noqa: N818 - it says what happened
    """Some of several items were refused: `errors` says which and why, `results` has the others."""

    def __init__(self, errors: dict[Item, ApiError], results: dict[Item, Result]) -> None:
        told = "; ".join(f"{item}: {error}" for item, error in list(errors.items())[:5])
        super().__init__(f"{len(errors)} of {len(errors) + len(results)} were refused: {told}")
        self.errors = errors
        self.results = results


class Driver:
    """Asks on behalf of the operations of an admin."""

    def __init__(self, client: NetworkClient, api_timeout_ms: int) -> None:
        self.client = client
        self.api_timeout_ms = api_timeout_ms
        self._backoff = Backoff(client.settings.retry_backoff_ms, client.settings.retry_backoff_max_ms)

    # Routes.

    async def to_any(self, _item: object) -> int:
        """Whoever is least busy."""
        return ANY_NODE

    async def to_controller(self, _item: object) -> int:
        """The controller."""
        if self.client.metadata.controller is None:
            await self.client.refresh()
        controller = self.client.metadata.controller
        if controller is None:
            raise ApiError(ErrorCode.NOT_CONTROLLER, "the cluster has no controller now")
        return controller.node_id

    async def to_leader(self, where: TopicPartition) -> int:
        """The leader of a partition; its topic must be in the metadata, see `know_topics`."""
        known = self.client.metadata.topic(where.topic)
        if known is None or known.error_code or where.partition >= len(known.partitions):
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no {where}")
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

    async def run(self, items: Collection[Item], route: Route[Item], ask: Ask[Item, Result]) -> dict[Item, Result]:
        """The result of each item. One item that is refused raises its ApiError, several raise PartlyRefused."""
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
        errors = {item: error for item, error in errors.items() if item not in results}
        if errors:
            if len(errors) == 1 and not results:
                raise next(iter(errors.values()))
            raise PartlyRefused(errors, results)
        return results

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
            raise DeadlinePassed(f"no answer within default.api.timeout.ms={self.api_timeout_ms}") from None
        return answers

    async def _ask(self, node_id: int, items: list[Item], ask: Ask[Item, Result]) -> Answers[Item, Result]:
        """Ask one broker. A lost connection is an answer like others: it may be asked again."""
        try:
            if node_id == ANY_NODE:
                node_id = self.client.by_load()[0].node_id
            found = await ask(node_id, items)
        except BrokerUnavailable as error:
            return {item: ApiError(ErrorCode.NETWORK_EXCEPTION, str(error)) for item in items}
        except ApiError as error:
            return dict.fromkeys(items, error)
        missing = ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, "the broker's answer does not mention it")
        return {item: found.get(item, missing) for item in items}

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


def answer_of(code: int, message: str | None, result: Result, what: object) -> Result | ApiError:
    """`result`, or the error that a broker told instead."""
    return result if code == ErrorCode.NONE else refusal(code, what, message)
