"""Transactions: the transactional ids, one of them, those that hang in partitions, and how each is aborted."""

import time
from typing import Final, NamedTuple

from starlette.responses import Response

from tidelog.client.aio.admin.admin import AsyncAdmin
from tidelog.client.aio.admin.types import ActiveProducer, TransactionStatus
from tidelog.client.types import TopicPartition
from tidelog.console.errors import PageError
from tidelog.console.forms import Act, Done, Form, Values, confirm_name
from tidelog.console.pages.routing import Area
from tidelog.console.text import duration, moment
from tidelog.console.web import Ask, link, paged, parse_number

PAGE_SIZE: Final = 50
MINUTES_DEFAULT: Final = 15
"""Longer than any transaction may take with the default transaction.max.timeout.ms."""


class OpenTransaction(NamedTuple):
    """A transaction that is open in a partition. `is_known`: its coordinator will end it."""

    where: TopicPartition
    producer: ActiveProducer
    is_known: bool
    is_old: bool

    @property
    def is_hanging(self) -> bool:
        """Whether no coordinator will end it."""
        return self.is_old and not self.is_known


async def show_list(ask: Ask) -> Response:
    """The transactional ids whose names contain a text."""
    wanted, state = ask.query("q").strip().lower(), ask.query("state")
    states = [state] if state else []
    found = await (await ask.view.admin()).list_transactions(states=states)
    page = paged(ask, [each for each in found if wanted in each.transactional_id.lower()], PAGE_SIZE)
    return ask.render(
        "transactions.html",
        area="transactions",
        page=page,
        q=ask.query("q"),
        state=state,
        states=[each.value for each in TransactionStatus],
    )


async def show_one(ask: Ask) -> Response:
    """One transactional id."""
    found = (await (await ask.view.admin()).describe_transactions([_id(ask)]))[_id(ask)]
    return ask.render(
        "transaction.html",
        area="transactions",
        transaction=found,
        open_for_s=time.time() - found.start_time_ms / 1000 if found.start_time_ms > 0 else None,
    )


async def show_hanging(ask: Ask) -> Response:
    """The transactions that are open in the partitions of one topic."""
    name = ask.query("topic").strip()
    minutes = ask.number("minutes", MINUTES_DEFAULT, 0, 1 << 20)
    found: list[OpenTransaction] = []
    if name:
        topic = await ask.view.topic(name)
        partitions = [TopicPartition(name, each.partition) for each in topic.partitions if each.leader_id >= 0]
        found = await _open_in(await ask.view.admin(), partitions, minutes)
    return ask.render("hanging.html", area="transactions", topic=name, minutes=minutes, found=found)


async def _open_in(admin: AsyncAdmin, partitions: list[TopicPartition], minutes: int) -> list[OpenTransaction]:
    before_ms = time.time_ns() // 1_000_000 - minutes * 60_000
    producers = await admin.describe_producers(partitions) if partitions else {}
    candidates = [
        (where, each)
        for where, found in sorted(producers.items())
        for each in found
        if each.transaction_start_offset >= 0
    ]
    known = await _known(admin, {each.producer_id for _, each in candidates})
    return [
        OpenTransaction(where, each, (each.producer_id, where) in known, each.last_timestamp < before_ms)
        for where, each in candidates
    ]


async def _known(admin: AsyncAdmin, producer_ids: set[int]) -> set[tuple[int, TopicPartition]]:
    """The producers and partitions of transactions that a coordinator will end."""
    if not producer_ids:
        return set()
    listed = await admin.list_transactions(producer_ids=producer_ids)
    described = await admin.describe_transactions([each.transactional_id for each in listed]) if listed else {}
    return {(each.producer_id, where) for each in described.values() for where in each.partitions}


def _id(ask: Ask) -> str:
    given = ask.query("id")
    if not given:
        raise PageError(400, "A transactional id is missing", "The address names no transactional id.")
    return given


# Acts.


async def _abort_form(ask: Ask) -> Form:
    found = (await (await ask.view.admin()).describe_transactions([_id(ask)]))[_id(ask)]
    return Form(
        f"Abort the transaction of {found.transactional_id}",
        [confirm_name(found.transactional_id, "transactional id")],
        "Abort and fence",
        link("/transaction", id=found.transactional_id),
        [
            f"It is {found.state}, with {len(found.partitions):,} partitions. What it wrote since it began is dropped.",
            "Its producer is fenced and must be restarted.",
        ],
        is_danger=True,
        area="transactions",
    )


async def _abort(ask: Ask, values: Values) -> Done:
    del values
    await (await ask.view.admin()).fence_producers([_id(ask)])
    message = f"The transaction of {_id(ask)} was aborted, and its producer is fenced."
    return Done(link("/transaction", id=_id(ask)), message)


async def _hanging_of(ask: Ask) -> OpenTransaction:
    where = TopicPartition(ask.query("topic"), parse_number("partition", ask.query("partition")))
    producer_id = parse_number("producer", ask.query("producer"))
    for each in await _open_in(await ask.view.admin(), [where], MINUTES_DEFAULT):
        if each.producer.producer_id == producer_id:
            return each
    raise PageError(404, "It does not exist", f"{where} has no open transaction of producer {producer_id}.")


async def _abort_hanging_form(ask: Ask) -> Form:
    found = await _hanging_of(ask)
    producer = found.producer
    silent_s = time.time() - producer.last_timestamp / 1000
    return Form(
        f"Abort a transaction in {found.where}",
        [confirm_name(found.where.topic, "topic")],
        "Abort",
        link("/transactions/hanging", topic=found.where.topic),
        [
            f"Producer {producer.producer_id} has it open since offset {producer.transaction_start_offset:,}.",
            f"Its last record is of {moment(producer.last_timestamp)}, {duration(silent_s)} ago.",
            "Its coordinator knows it and will end it: abort it by its transactional id instead."
            if found.is_known
            else "No coordinator knows it: read_committed consumers and compaction stop there until it is aborted.",
        ],
        is_danger=True,
        area="transactions",
    )


async def _abort_hanging(ask: Ask, values: Values) -> Done:
    del values
    found = await _hanging_of(ask)
    producer = found.producer
    await (await ask.view.admin()).abort_transaction(
        found.where, producer.producer_id, producer.producer_epoch, max(producer.coordinator_epoch, 0)
    )
    message = f"The transaction of producer {producer.producer_id} in {found.where} was aborted."
    return Done(link("/transactions/hanging", topic=found.where.topic), message)


AREA = Area(
    pages={
        "/transactions": show_list,
        "/transactions/hanging": show_hanging,
        "/transaction": show_one,
    },
    acts=[
        Act("/transaction/abort", _abort_form, _abort),
        Act("/transactions/hanging/abort", _abort_hanging_form, _abort_hanging),
    ],
)
