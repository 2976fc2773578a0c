"""`tidelog reassign generate`: propose where partitions go."""

import random
from typing import Annotated, Final

import typer

from tidelog.cli._clients import connect_admin
from tidelog.cli._options import BootstrapServer, CommandConfig
from tidelog.cli.errors import CommandError
from tidelog.cli.output import print_json
from tidelog.cli.reassign._plans import Plan, current_plan, plan_document
from tidelog.metadata.placement import place_replicas

EXAMPLE: Final = "tidelog reassign generate orders --brokers 1,2,3 > plan.json"


def generate(
    topics: Annotated[list[str], typer.Argument(help="Topics to move.", metavar="TOPIC…", show_default=False)],
    brokers: Annotated[
        str | None,
        typer.Option("--brokers", help="Brokers to use, by id.", metavar="ID,ID…", show_default="all that are alive"),
    ] = None,
    bootstrap_server: BootstrapServer = None,
    command_config: CommandConfig = None,
) -> None:
    """Print a plan that spreads the partitions of topics over brokers. Nothing moves until `execute`."""
    with connect_admin(bootstrap_server, command_config) as admin:
        alive = sorted(node.node_id for node in admin.describe_cluster().nodes)
        chosen = alive if brokers is None else _parse_brokers(brokers)
        unknown = sorted(set(chosen).difference(alive))
        if unknown:
            raise CommandError(f"--brokers: {unknown} are not alive; alive are {alive}")
        current = current_plan(admin, topics)
    print_json(plan_document(_spread(current, chosen)))


def _parse_brokers(text: str) -> list[int]:
    try:
        return sorted({int(word) for word in text.split(",")})
    except ValueError:
        raise CommandError(f"--brokers {text!r} is not a list of ids such as 1,2,3") from None


def _spread(current: Plan, brokers: list[int]) -> Plan:
    """Place each topic as if it were created now on these brokers, with the replication factor it has."""
    plan: Plan = {}
    for topic in sorted({where.topic for where in current}):
        partitions = sorted(where for where in current if where.topic == topic)
        factor = len(current[partitions[0]])
        placed = place_replicas(
            brokers,
            len(partitions),
            factor,
            start_index=random.randrange(len(brokers)),
            follower_shift=random.randrange(len(brokers)),
        )
        plan.update(zip(partitions, placed, strict=True))
    return plan
