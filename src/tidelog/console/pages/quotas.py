"""Quotas of users, client ids and addresses."""

from typing import Final

from starlette.responses import Response

from tidelog.client.aio.admin.types import DEFAULT_ENTITY, ClientQuotaEntity
from tidelog.console.errors import PageError
from tidelog.console.forms import Act, Done, Field, Form, Values
from tidelog.console.pages.routing import Area
from tidelog.console.web import Ask, link, paged

PAGE_SIZE: Final = 50
LIMITS: Final = (
    ("producer_byte_rate", "Produced bytes each second"),
    ("consumer_byte_rate", "Fetched bytes each second"),
    ("request_percentage", "Percent of a broker's time"),
    ("controller_mutation_rate", "Partitions created and deleted each second"),
    ("connection_creation_rate", "Connections each second, of an address"),
)


async def show_list(ask: Ask) -> Response:
    """All quotas."""
    found = await (await ask.view.admin()).describe_client_quotas()
    wanted = ask.query("q").strip().lower()
    rows = [
        (entity, sorted(limits.items()))
        for entity, limits in sorted(found.items(), key=lambda each: str(each[0]))
        if wanted in str(entity).lower()
    ]
    return ask.render(
        "quotas.html", area="quotas", page=paged(ask, rows, PAGE_SIZE), q=ask.query("q"), labels=dict(LIMITS)
    )


def _entity(user: str, client_id: str, ip: str) -> ClientQuotaEntity:
    entity = ClientQuotaEntity(user.strip() or None, client_id.strip() or None, ip.strip() or None)
    if not entity.parts:
        raise PageError(400, "Something is missing", "Name a user, a client id or an address.")
    if entity.ip is not None and (entity.user is not None or entity.client_id is not None):
        raise PageError(400, "This cannot be combined", "An address cannot be combined with a user or a client id.")
    return entity


async def _set_form(ask: Ask) -> Form:
    hint = f"{DEFAULT_ENTITY} stands for all that have no quota of their own."
    current: dict[str, float] = {}
    if any(ask.query(name) for name in ("user", "client_id", "ip")):
        entity = _entity(ask.query("user"), ask.query("client_id"), ask.query("ip"))
        current = (await (await ask.view.admin()).describe_client_quotas()).get(entity, {})
    return Form(
        "Set quotas",
        [
            Field("user", "User", ask.query("user"), required=False, hint=hint),
            Field("client_id", "Client id", ask.query("client_id"), required=False, hint=hint),
            Field("ip", "Address", ask.query("ip"), required=False, hint="Alone, without a user or a client id."),
            *(
                Field(name, label, f"{current[name]:g}" if name in current else "", "number", required=False)
                for name, label in LIMITS
            ),
        ],
        "Save",
        "/quotas",
        ["Limits that are left empty are removed."],
        area="quotas",
    )


async def _set(ask: Ask, values: Values) -> Done:
    entity = _entity(values.get("user", ""), values.get("client_id", ""), values.get("ip", ""))
    admin = await ask.view.admin()
    current = (await admin.describe_client_quotas()).get(entity, {})
    changes: dict[str, float | None] = {}
    for name, label in LIMITS:
        given = values.get(name, "").strip()
        if given:
            changes[name] = _rate(label, given)
        elif name in current:
            changes[name] = None
    if not changes:
        raise PageError(400, "Something is missing", "Give at least one limit.")
    await admin.alter_client_quotas({entity: changes})
    return Done("/quotas", f"The quotas of {entity} were saved.")


def _rate(label: str, given: str) -> float:
    try:
        rate = float(given)
    except ValueError:
        rate = 0.0
    if not 0 < rate < float("inf"):
        raise PageError(400, "This number cannot be used", f"{label} is {given!r}; it must be a number above 0.")
    return rate


async def _remove_form(ask: Ask) -> Form:
    entity = _entity(ask.query("user"), ask.query("client_id"), ask.query("ip"))
    limits = (await (await ask.view.admin()).describe_client_quotas()).get(entity, {})
    return Form(
        f"Remove the quotas of {entity}",
        [],
        "Remove the quotas",
        "/quotas",
        ["Its clients are then limited only by the quotas of the defaults, if there are any."],
        is_danger=True,
        headings=("Limit", "Value"),
        rows=[(dict(LIMITS).get(name, name), f"{value:,g}") for name, value in sorted(limits.items())],
        area="quotas",
    )


async def _remove(ask: Ask, values: Values) -> Done:
    del values
    entity = _entity(ask.query("user"), ask.query("client_id"), ask.query("ip"))
    admin = await ask.view.admin()
    limits = (await admin.describe_client_quotas()).get(entity)
    if not limits:
        raise PageError(404, "It does not exist", f"There are no quotas of {entity}.")
    await admin.alter_client_quotas({entity: dict.fromkeys(limits)})
    return Done("/quotas", f"The quotas of {entity} were removed.")


def entity_url(path: str, entity: ClientQuotaEntity) -> str:
    """The address of an act on the quotas of an entity."""
    return link(path, user=entity.user, client_id=entity.client_id, ip=entity.ip)


AREA = Area(
    pages={"/quotas": show_list},
    acts=[Act("/quotas/set", _set_form, _set), Act("/quotas/remove", _remove_form, _remove)],
)
