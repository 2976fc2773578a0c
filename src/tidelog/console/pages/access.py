"""Access control entries, and the users who can log in with SCRAM."""

from collections.abc import Mapping
from typing import Final, NamedTuple

from starlette.responses import Response

from tidelog.client.aio.admin.types import (
    AccessControlEntry,
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AclResourceType,
    PatternType,
    ResourcePattern,
    ScramCredentialDeletion,
    ScramCredentialUpsert,
)
from tidelog.console.errors import Explained, PageError, explain
from tidelog.console.forms import Act, Done, Field, Form, Values, confirm_name
from tidelog.console.pages.routing import Area
from tidelog.console.web import Ask, link, paged
from tidelog.security.acls import CLUSTER_NAME, WILDCARD, mistake_in
from tidelog.security.scram import ITERATIONS_MIN, new_salt, salted_password

PAGE_SIZE: Final = 50
MECHANISMS: Final = ("SCRAM-SHA-512", "SCRAM-SHA-256")


def word(member: AclResourceType | AclOperation | AclPermissionType | PatternType) -> str:
    """`describe-configs`, `transactional-id`, …"""
    return member.name.lower().replace("_", "-")


_TYPES: Final = {word(each): each for each in AclResourceType if each is not AclResourceType.ANY}
_OPERATIONS: Final = {word(each): each for each in AclOperation if each is not AclOperation.ANY}


class AclRow(NamedTuple):
    """An entry in the list, as words."""

    kind: str
    name: str
    is_prefix: bool
    principal: str
    host: str
    operation: str
    permission: str

    @classmethod
    def of(cls, binding: AclBinding) -> "AclRow":
        """The row of an entry."""
        resource, entry = binding
        return cls(
            word(resource.type),
            resource.name,
            resource.pattern is PatternType.PREFIXED,
            entry.principal,
            entry.host,
            word(entry.operation),
            word(entry.permission),
        )

    @property
    def url(self) -> str:
        """Where it can be deleted."""
        return link("/access/delete", **{**self._asdict(), "is_prefix": "1" if self.is_prefix else ""})


async def show_acls(ask: Ask) -> Response:
    """The entries of a type, a resource or a principal."""
    kind, name, principal = ask.query("kind"), ask.query("q").strip(), ask.query("principal").strip()
    problem: Explained | None = None
    rows: list[AclRow] = []
    try:
        found = await (await ask.view.admin()).describe_acls(AclBindingFilter(_TYPES.get(kind, AclResourceType.ANY)))
        rows = [AclRow.of(each) for each in sorted(found)]
    except Exception as error:
        problem = explain(error)
        if problem is None or problem.status >= 503:
            raise
    rows = [row for row in rows if name.lower() in row.name.lower() and principal.lower() in row.principal.lower()]
    return ask.render(
        "acls.html",
        area="access",
        tab="acls",
        page=paged(ask, rows, PAGE_SIZE),
        kinds=list(_TYPES),
        kind=kind,
        q=name,
        principal=principal,
        problem=problem,
    )


async def show_users(ask: Ask) -> Response:
    """The users who can log in with SCRAM."""
    found = await (await ask.view.admin()).describe_user_scram_credentials()
    wanted = ask.query("q").strip().lower()
    rows = [
        (user, mechanism, iterations)
        for user, credentials in sorted(found.items())
        for mechanism, iterations in sorted(credentials.items())
        if wanted in user.lower()
    ]
    return ask.render("users.html", area="access", tab="users", page=paged(ask, rows, PAGE_SIZE), q=ask.query("q"))


# Acts.


def _choices(names: Mapping[str, object]) -> list[tuple[str, str]]:
    return [(name, name) for name in names]


async def _add_form(ask: Ask) -> Form:
    del ask
    return Form(
        "Add an access control entry",
        [
            Field("principal", "Principal", "User:", hint="Such as User:alice, or User:* for everyone."),
            Field("permission", "Permission", kind="select", options=[("allow", "Allow"), ("deny", "Deny")]),
            Field("operation", "Operation", kind="select", options=_choices(_OPERATIONS)),
            Field("kind", "Resource", kind="select", options=_choices(_TYPES)),
            Field("name", "Name", required=False, hint="* for all; not needed for the cluster."),
            Field("is_prefix", "The name is a prefix", kind="checkbox", required=False),
            Field("host", "Host", "*", hint="An address, or * for all."),
        ],
        "Add",
        "/access",
        ["An entry that denies goes before entries that allow."],
        area="access",
    )


async def _add(ask: Ask, values: Values) -> Done:
    binding = _binding(values)
    if problem := mistake_in(binding):
        raise PageError(400, "The entry cannot be used", problem[0].upper() + problem[1:] + ".")
    await (await ask.view.admin()).create_acls([binding])
    return Done("/access", f"The entry for {binding.entry.principal} was added.")


def _binding(values: Values) -> AclBinding:
    kind, operation = _TYPES.get(values.get("kind", "")), _OPERATIONS.get(values.get("operation", ""))
    if kind is None or operation is None:
        raise PageError(400, "The entry cannot be used", "Its resource or its operation is not known.")
    name = CLUSTER_NAME if kind is AclResourceType.CLUSTER else values.get("name", "").strip()
    if not name:
        raise PageError(400, "The entry cannot be used", "Name is missing.")
    principal = values.get("principal", "").strip()
    pattern = PatternType.PREFIXED if values.get("is_prefix") == "1" else PatternType.LITERAL
    permission = AclPermissionType.DENY if values.get("permission") == "deny" else AclPermissionType.ALLOW
    return AclBinding(
        ResourcePattern(kind, name, pattern),
        AccessControlEntry(
            principal if ":" in principal else f"User:{principal}",
            values.get("host", "").strip() or WILDCARD,
            operation,
            permission,
        ),
    )


def _named(ask: Ask) -> AclBinding:
    return _binding({name: ask.query(name) for name in AclRow._fields})


async def _remove_form(ask: Ask) -> Form:
    row = AclRow.of(_named(ask))
    return Form(
        "Delete an access control entry",
        [],
        "Delete the entry",
        "/access",
        ["Connections that are open follow the change at once."],
        is_danger=True,
        headings=("Principal", "Permission", "Operation", "Resource", "Name", "Host"),
        rows=[
            (
                row.principal,
                row.permission,
                row.operation,
                row.kind,
                f"{row.name} (prefix)" if row.is_prefix else row.name,
                row.host,
            )
        ],
        area="access",
    )


async def _remove(ask: Ask, values: Values) -> Done:
    del values
    resource, entry = _named(ask)
    exact = AclBindingFilter(
        resource.type, resource.name, resource.pattern, entry.principal, entry.host, entry.operation, entry.permission
    )
    removed = await (await ask.view.admin()).delete_acls([exact])
    if not removed.get(exact):
        raise PageError(404, "It does not exist", "There is no such entry any more.")
    return Done("/access", f"The entry for {entry.principal} was deleted.")


async def _add_user_form(ask: Ask) -> Form:
    return Form(
        "Add a user, or change a password",
        [
            Field("user", "User", ask.query("user")),
            Field("mechanism", "Mechanism", ask.query("mechanism"), "select", options=[(m, m) for m in MECHANISMS]),
            Field("password", "Password", kind="password"),
            Field("again", "Password, once more", kind="password"),
        ],
        "Save",
        "/users",
        area="access",
    )


async def _add_user(ask: Ask, values: Values) -> Done:
    user, mechanism, password = values["user"].strip(), values.get("mechanism", ""), values["password"]
    if mechanism not in MECHANISMS:
        raise PageError(400, "The mechanism is not known", f"{mechanism!r} is not a mechanism.")
    if password != values.get("again"):
        raise PageError(400, "The passwords differ", "The two passwords are not the same.")
    salt = new_salt()
    salted = salted_password(mechanism, password, salt, ITERATIONS_MIN)
    upsert = ScramCredentialUpsert(user, mechanism, ITERATIONS_MIN, salt, salted)
    await (await ask.view.admin()).alter_user_scram_credentials([upsert])
    return Done("/users", f"User {user} can log in with {mechanism}.")


async def _remove_user_form(ask: Ask) -> Form:
    user, mechanism = ask.query("user"), ask.query("mechanism")
    return Form(
        f"Delete {mechanism} of {user}",
        [confirm_name(user, "user")],
        "Delete the credential",
        "/users",
        [f"{user} can no longer log in with {mechanism}. Connections that are open stay."],
        is_danger=True,
        area="access",
    )


async def _remove_user(ask: Ask, values: Values) -> Done:
    del values
    user, mechanism = ask.query("user"), ask.query("mechanism")
    await (await ask.view.admin()).alter_user_scram_credentials([ScramCredentialDeletion(user, mechanism)])
    return Done("/users", f"User {user} can no longer log in with {mechanism}.")


AREA = Area(
    pages={"/access": show_acls, "/users": show_users},
    acts=[
        Act("/access/add", _add_form, _add),
        Act("/access/delete", _remove_form, _remove),
        Act("/users/add", _add_user_form, _add_user),
        Act("/users/delete", _remove_user_form, _remove_user),
    ],
)
