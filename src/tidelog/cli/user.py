"""`tidelog user`: users that log in with SCRAM."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from tidelog.cli._clients import Connection
from tidelog.cli._user_tree import store_in_tree
from tidelog.cli._verbs import noun, verb
from tidelog.cli.errors import CommandError
from tidelog.cli.output import Result, Table
from tidelog.cli.progress import stop_showing_work
from tidelog.client.aio.admin.types import ScramCredentialDeletion, ScramCredentialUpsert
from tidelog.security.scram import ITERATIONS_MAX, ITERATIONS_MIN, make_credential, new_salt, salted_password


def register(application: typer.Typer) -> None:
    """Add the noun and its verbs."""
    user = noun(application, "user", "List, add and delete users that log in with SCRAM.")
    verb(user, "list", list_users, "tidelog user list")
    verb(user, "add", add, "tidelog user add alice --mechanism SCRAM-SHA-512")
    verb(user, "delete", delete, "tidelog user delete alice --mechanism SCRAM-SHA-512")


class Mechanism(StrEnum):
    """The mechanisms that users have credentials for."""

    SCRAM_SHA_256 = "SCRAM-SHA-256"
    SCRAM_SHA_512 = "SCRAM-SHA-512"


UserName = Annotated[str, typer.Argument(help="Name of the user.", metavar="USER", show_default=False)]
OfMechanism = Annotated[Mechanism, typer.Option(help="SCRAM mechanism of the credential.")]


def list_users(connection: Connection) -> Result:
    """List users and the SCRAM mechanisms they have credentials for."""
    with connection.admin() as admin:
        users = admin.describe_user_scram_credentials()
    rows = [(user, name, count) for user, found in sorted(users.items()) for name, count in found.items()]
    return Result(
        users, Table(headings=("USER", "MECHANISM", "ITERATIONS"), rows=rows, nothing="No user can log in with SCRAM.")
    )


def add(
    connection: Connection,
    user: UserName,
    mechanism: OfMechanism = Mechanism.SCRAM_SHA_512,
    iterations: Annotated[
        int, typer.Option(help="Rounds of the password's hash.", min=ITERATIONS_MIN, max=ITERATIONS_MAX)
    ] = ITERATIONS_MIN,
    password_file: Annotated[
        Path | None,
        typer.Option(help="File whose first line is the password.", show_default="ask for it", metavar="FILE"),
    ] = None,
    server_properties: Annotated[
        Path | None,
        typer.Option(
            help="Settings of a broker that does not run: write to its metadata instead of asking a broker. For the "
            "first user, with whom brokers log in themselves.",
            metavar="FILE",
        ),
    ] = None,
) -> Result:
    """Add a user, or change the password of one."""
    password = _password(password_file)
    salt = new_salt()
    salted = salted_password(mechanism, password, salt, iterations)
    if server_properties is not None:
        credential = str(make_credential(mechanism, salted, salt, iterations))
        store_in_tree(server_properties, user, [(mechanism.value, credential)])
    else:
        upsert = ScramCredentialUpsert(user, mechanism.value, iterations, salt, salted)
        with connection.admin() as admin:
            admin.alter_user_scram_credentials([upsert])
    return Result(
        {"user": user, "mechanism": mechanism.value, "iterations": iterations},
        f"User {user} can log in with {mechanism.value}.",
    )


def _password(file: Path | None) -> str:
    if file is None:
        stop_showing_work()
        asked: str = typer.prompt("Password", hide_input=True, confirmation_prompt=True, err=True)
        return asked
    lines = file.read_text(encoding="utf-8").splitlines()
    if not lines or not lines[0]:
        raise CommandError(f"--password-file {file} is empty")
    return lines[0]


def delete(
    connection: Connection,
    user: UserName,
    mechanism: OfMechanism = Mechanism.SCRAM_SHA_512,
) -> Result:
    """Delete a user's credential. Connections that are open stay, until their sessions end."""
    with connection.admin() as admin:
        admin.alter_user_scram_credentials([ScramCredentialDeletion(user, mechanism.value)])
    return Result(
        {"deleted": user, "mechanism": mechanism.value}, f"Deleted the {mechanism.value} credential of user {user}."
    )
