"""Options of the verbs of `tidelog user`."""

from enum import StrEnum
from typing import Annotated

import typer


class Mechanism(StrEnum):
    """The mechanisms that users have credentials for."""

    SCRAM_SHA_256 = "SCRAM-SHA-256"
    SCRAM_SHA_512 = "SCRAM-SHA-512"


UserName = Annotated[str, typer.Argument(help="Name of the user.", metavar="USER", show_default=False)]
OfMechanism = Annotated[Mechanism, typer.Option(help="SCRAM mechanism of the credential.")]
