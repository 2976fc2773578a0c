"""`tidelog user add`."""

from pathlib import Path
from typing import Annotated, Final

import typer

from tidelog.cli._clients import connect_admin
from tidelog.cli._options import BootstrapServer, CommandConfig, Format, OutputFormat
from tidelog.cli._user_tree import store_in_tree
from tidelog.cli.errors import CommandError
from tidelog.cli.output import print_json, print_line
from tidelog.cli.user._options import Mechanism, OfMechanism, UserName
from tidelog.client.aio.admin.types import ScramCredentialUpsert
from tidelog.security.scram import ITERATIONS_MAX, ITERATIONS_MIN, make_credential, new_salt, salted_password

EXAMPLE: Final = "tidelog user add alice --mechanism SCRAM-SHA-512"


def add(
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
    bootstrap_server: BootstrapServer = None,
    command_config: CommandConfig = None,
    output: OutputFormat = Format.TEXT,
) -> None:
    """Add a user, or change the password of one."""
    password = _password(password_file)
    salt = new_salt()
    salted = salted_password(mechanism, password, salt, iterations)
    if server_properties is not None:
        credential = str(make_credential(mechanism, salted, salt, iterations))
        store_in_tree(server_properties, user, [(mechanism.value, credential)])
    else:
        upsert = ScramCredentialUpsert(user, mechanism.value, iterations, salt, salted)
        with connect_admin(bootstrap_server, command_config) as admin:
            admin.alter_user_scram_credentials([upsert])
    if output is Format.JSON:
        print_json({"user": user, "mechanism": mechanism.value, "iterations": iterations})
    else:
        print_line(f"User {user} can log in with {mechanism.value}.")


def _password(file: Path | None) -> str:
    if file is None:
        asked: str = typer.prompt("Password", hide_input=True, confirmation_prompt=True, err=True)
        return asked
    lines = file.read_text(encoding="utf-8").splitlines()
    if not lines or not lines[0]:
        raise CommandError(f"--password-file {file} is empty")
    return lines[0]
