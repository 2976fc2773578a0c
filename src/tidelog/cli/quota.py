"""`tidelog quota`: limits of users and client ids."""

from typing import Annotated

import typer

from tidelog.cli._clients import Connection
from tidelog.cli._verbs import noun, verb
from tidelog.cli.errors import CommandError
from tidelog.cli.output import Result, Table
from tidelog.client.aio.admin.types import DEFAULT_ENTITY, ClientQuotaEntity


def register(application: typer.Typer) -> None:
    """Add the noun and its verbs."""
    quota = noun(application, "quota", "List, set and remove the quotas of users and client ids.")
    verb(quota, "list", list_quotas, "tidelog quota list")
    verb(quota, "set", set_quotas, "tidelog quota set --user alice --producer-byte-rate 1048576")
    verb(quota, "remove", remove, "tidelog quota remove producer_byte_rate --user alice")


OfUser = Annotated[str | None, typer.Option("--user", help="Of a user.", show_default=False)]
OfEveryUser = Annotated[bool, typer.Option("--user-default", help="Of every user that has no quota of its own.")]
OfClientId = Annotated[str | None, typer.Option("--client-id", help="Of a client id.", show_default=False)]
OfEveryClientId = Annotated[
    bool, typer.Option("--client-id-default", help="Of every client id that has no quota of its own.")
]
OfAddress = Annotated[str | None, typer.Option("--ip", help="Of an address.", show_default=False)]


def chosen_entity(
    user: str | None, user_default: bool, client_id: str | None, client_id_default: bool, ip: str | None
) -> ClientQuotaEntity:
    """The entity that the options name."""
    if ip is not None:
        if user is not None or user_default or client_id is not None or client_id_default:
            raise CommandError("--ip cannot be combined with users or client ids")
        return ClientQuotaEntity(ip=ip)
    if (user is not None and user_default) or (client_id is not None and client_id_default):
        raise CommandError("give a name or the default, not both")
    entity = ClientQuotaEntity(
        DEFAULT_ENTITY if user_default else user, DEFAULT_ENTITY if client_id_default else client_id
    )
    if not entity.parts:
        raise CommandError("say whose quota it is: --user, --user-default, --client-id, --client-id-default or --ip")
    return entity


def list_quotas(
    connection: Connection,
) -> Result:
    """List all quotas."""
    with connection.admin() as admin:
        found = admin.describe_client_quotas()
    rows = [
        (str(entity), name, int(value) if value.is_integer() else value)
        for entity, values in found.items()
        for name, value in values.items()
    ]
    return Result(
        [{"entity": entity.parts, "quotas": values} for entity, values in found.items()],
        Table(headings=("OF", "QUOTA", "LIMIT"), rows=sorted(rows), nothing="No quota is set."),
    )


def set_quotas(
    connection: Connection,
    user: OfUser = None,
    user_default: OfEveryUser = False,
    client_id: OfClientId = None,
    client_id_default: OfEveryClientId = False,
    ip: OfAddress = None,
    producer_byte_rate: Annotated[
        float | None, typer.Option("--producer-byte-rate", help="Bytes a second of Produce.", show_default=False)
    ] = None,
    consumer_byte_rate: Annotated[
        float | None, typer.Option("--consumer-byte-rate", help="Bytes a second of Fetch.", show_default=False)
    ] = None,
    request_percentage: Annotated[
        float | None,
        typer.Option("--request-percentage", help="Percent of a broker's time, of 100 in all.", show_default=False),
    ] = None,
    controller_mutation_rate: Annotated[
        float | None,
        typer.Option("--controller-mutation-rate", help="Partitions created and deleted a second.", show_default=False),
    ] = None,
    connection_creation_rate: Annotated[
        float | None,
        typer.Option("--connection-creation-rate", help="Connections a second; with --ip.", show_default=False),
    ] = None,
) -> Result:
    """Set quotas of a user, a client id, a client id of a user, or an address; others stay as they are."""
    entity = chosen_entity(user, user_default, client_id, client_id_default, ip)
    given = {
        "producer_byte_rate": producer_byte_rate,
        "consumer_byte_rate": consumer_byte_rate,
        "request_percentage": request_percentage,
        "controller_mutation_rate": controller_mutation_rate,
        "connection_creation_rate": connection_creation_rate,
    }
    limits = {name: value for name, value in given.items() if value is not None}
    if not limits:
        raise CommandError(f"give a limit: {', '.join('--' + name.replace('_', '-') for name in given)}")
    with connection.admin() as admin:
        admin.alter_client_quotas({entity: limits})
    lines = [f"{entity}: {name} is {value:.15g}" for name, value in limits.items()]
    return Result({"entity": entity.parts, "quotas": limits}, "\n".join(lines))


def remove(
    connection: Connection,
    names: Annotated[
        list[str] | None, typer.Argument(help="Quotas to remove; by default all of the entity.", metavar="NAME…")
    ] = None,
    user: OfUser = None,
    user_default: OfEveryUser = False,
    client_id: OfClientId = None,
    client_id_default: OfEveryClientId = False,
    ip: OfAddress = None,
) -> Result:
    """Remove quotas of a user, a client id, a client id of a user, or an address."""
    entity = chosen_entity(user, user_default, client_id, client_id_default, ip)
    with connection.admin() as admin:
        wanted = names or sorted(admin.describe_client_quotas().get(entity, {}))
        if wanted:
            admin.alter_client_quotas({entity: dict.fromkeys(wanted)})
    lines = [f"{entity}: {name} is removed" for name in wanted] or [f"{entity}: no quota is set"]
    return Result({"entity": entity.parts, "removed": wanted}, "\n".join(lines))
