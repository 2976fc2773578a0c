"""Reassignments: partitions that move between brokers, how far they are, and how to start and cancel a move."""

from typing import Final, NamedTuple

from starlette.responses import Response

from tidelog.client.aio.admin.types import Reassignment
from tidelog.client.types import TopicPartition
from tidelog.console.errors import PageError
from tidelog.console.forms import Act, Done, Field, Form, Values
from tidelog.console.pages.routing import Area
from tidelog.console.web import Ask, paged, parse_number

PAGE_SIZE: Final = 50


class MoveRow(NamedTuple):
    """A partition on the move; `share` is how much of the leader's bytes the slowest new replica has, from 0 to 1."""

    where: TopicPartition
    move: Reassignment
    share: float | None

    @property
    def target(self) -> tuple[int, ...]:
        """The replicas when it is done."""
        return tuple(each for each in self.move.replicas if each not in self.move.removing)


async def show_list(ask: Ask) -> Response:
    """The moves under way."""
    moves = await (await ask.view.admin()).list_partition_reassignments()
    page = paged(ask, sorted(moves.items()), PAGE_SIZE)
    shares = await _shares(ask, dict(page.rows))
    rows = [MoveRow(where, move, shares.get(where)) for where, move in page.rows]
    return ask.render("reassignments.html", area="reassignments", rows=rows, page=page)


async def _shares(ask: Ask, moves: dict[TopicPartition, Reassignment]) -> dict[TopicPartition, float]:
    """How far each move is, by the sizes of its replicas."""
    if not moves:
        return {}
    topics = (await ask.view.snapshot.get()).topics
    moves = {where: move for where, move in moves.items() if where.topic in topics}
    ask.view.forget_sizes()
    sizes = await ask.view.sizes([topics[name] for name in {where.topic for where in moves}])
    shares: dict[TopicPartition, float] = {}
    for where, move in moves.items():
        found = sizes.get(where.topic, {})
        leader = next(
            (each.leader_id for each in topics[where.topic].partitions if each.partition == where.partition), -1
        )
        whole = found.get(leader, {}).get(where)
        if whole is not None and move.adding:
            slowest = min(found.get(broker, {}).get(where, 0) for broker in move.adding)
            shares[where] = min(1.0, slowest / whole) if whole else 1.0
    return shares


# Acts.


async def _start_form(ask: Ask) -> Form:
    snapshot = await ask.view.snapshot.get()
    brokers = ", ".join(str(node.node_id) for node in snapshot.cluster.nodes)
    return Form(
        "Move partitions",
        [
            Field("topic", "Topic", ask.query("topic")),
            Field("partition", "Partition", ask.query("partition"), required=False, hint="Empty: all of the topic."),
            Field(
                "replicas",
                "Replicas",
                hint=f"Broker ids, the preferred leader first, such as 1, 2, 3. The brokers are {brokers}.",
            ),
        ],
        "Start the move",
        "/reassignments",
        ["Records are copied to the new replicas; clients go on meanwhile."],
        area="reassignments",
    )


async def _start(ask: Ask, values: Values) -> Done:
    topic = await ask.view.topic(values["topic"].strip())
    replicas = [parse_number("A broker id", each, 0, 1 << 31) for each in values["replicas"].replace(",", " ").split()]
    if not replicas or len(set(replicas)) != len(replicas):
        raise PageError(400, "The replicas cannot be used", "Name each broker once, and at least one.")
    given = values.get("partition", "").strip()
    last = len(topic.partitions) - 1
    numbers = [parse_number("Partition", given, 0, last)] if given else range(last + 1)
    await (await ask.view.admin()).alter_partition_reassignments(
        {TopicPartition(topic.name, each): replicas for each in numbers}
    )
    return Done("/reassignments", f"{len(numbers):,} partitions of {topic.name} move now, or have moved.")


def _where(ask: Ask) -> TopicPartition:
    return TopicPartition(ask.query("topic"), parse_number("partition", ask.query("partition")))


async def _cancel_form(ask: Ask) -> Form:
    where = _where(ask)
    move = (await (await ask.view.admin()).list_partition_reassignments([where])).get(where)
    if move is None:
        raise PageError(404, "It does not exist", f"{where} is not moving.")
    return Form(
        f"Cancel the move of {where}",
        [],
        "Cancel the move",
        "/reassignments",
        ["The partition keeps the replicas that it had; what was copied is deleted."],
        is_danger=True,
        headings=("Replicas", "Adding", "Removing"),
        rows=[tuple(", ".join(str(each) for each in part) or "–" for part in move)],
        area="reassignments",
    )


async def _cancel(ask: Ask, values: Values) -> Done:
    del values
    where = _where(ask)
    await (await ask.view.admin()).alter_partition_reassignments({where: None})
    return Done("/reassignments", f"The move of {where} was cancelled.")


AREA = Area(
    pages={"/reassignments": show_list},
    acts=[
        Act("/reassignments/start", _start_form, _start),
        Act("/reassignments/cancel", _cancel_form, _cancel),
    ],
)
