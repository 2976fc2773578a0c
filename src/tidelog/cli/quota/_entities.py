"""The options that say whose quota it is."""

from typing import Annotated

import typer

from tidelog.cli.errors import CommandError
from tidelog.client.aio.admin.types import DEFAULT_ENTITY, ClientQuotaEntity

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
