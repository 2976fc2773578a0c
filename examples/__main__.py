"""`python -m tidelog.examples`: where the examples are, and events for their topics.

python -m tidelog.examples                       the files, and what each one does
python -m tidelog.examples fill enrich_orders    create and fill its topics, by default on 127.0.0.1:9092
"""

import argparse
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Final, NamedTuple

from tidelog.client.errors import ClientError
from tidelog.examples import data
from tidelog.examples.data import Event
from tidelog.examples.topics import make_topics, send_events
from tidelog.wire.errors import ApiError


class Example(NamedTuple):
    """One example: its topics, and events for those that it reads."""

    sentence: str
    topics: Sequence[str]
    events: Callable[[int], Iterator[Event]]


EXAMPLES: Final[Mapping[str, Example]] = {
    "enrich_orders": Example(
        "orders joined with their customers, exactly once",
        ("orders", "customers", "orders.enriched"),
        lambda count: chain(data.customers(), data.orders(count), data.odd_orders(first=count)),
    ),
    "tide_windows": Example(
        "averages over windows of event time, late readings included",
        ("tide-levels", "tide-levels.10m"),
        lambda count: data.tide_levels(max(1, count // len(data.STATIONS))),
    ),
    "account_balances": Example(
        "a compacted topic as the state of a running sum", ("payments", "balances"), data.payments
    ),
    "payments_lake": Example("a topic as Parquet files and as a Delta Lake table", ("payments",), data.payments),
    "customer_changes": Example(
        "change events to latest state of each row",
        ("db.customers", "customers.latest"),
        data.customer_changes,
    ),
}


def main(arguments: Sequence[str] | None = None) -> int:
    """List the examples, or fill the topics of one."""
    parser = argparse.ArgumentParser(prog="python -m tidelog.examples", description="Example pipelines.")
    verbs = parser.add_subparsers(dest="verb")
    fill = verbs.add_parser("fill", help="create and fill the topics of an example")
    fill.add_argument("example", choices=sorted(EXAMPLES))
    fill.add_argument("--records", type=int, default=1000, help="how many events (default: 1000)")
    fill.add_argument(
        "--bootstrap-server",
        default=os.environ.get("TIDELOG_BOOTSTRAP_SERVERS", "127.0.0.1:9092"),
        help="bootstrap servers (default: TIDELOG_BOOTSTRAP_SERVERS, else 127.0.0.1:9092)",
    )
    given = parser.parse_args(arguments)
    if given.verb is None:
        _list()
        return 0
    example = EXAMPLES[given.example]
    try:
        make_topics(given.bootstrap_server, example.topics)
        count = send_events(given.bootstrap_server, example.events(given.records))
    except (ClientError, ApiError) as error:
        sys.stderr.write(f"tidelog: {error}\n")
        return 1
    sys.stdout.write(f"{count:,} events sent\n")
    return 0


def _list() -> None:
    directory = Path(__file__).parent
    for name, example in EXAMPLES.items():
        sys.stdout.write(f"{directory / name}.py\n    {example.sentence}\n")


if __name__ == "__main__":
    sys.exit(main())
