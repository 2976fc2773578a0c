"""Options that every command about a cluster on this machine takes."""

from pathlib import Path
from typing import Annotated, Final

import typer

DEFAULT_DIRECTORY: Final = Path("tidelog-cluster")

Directory = Annotated[
    Path,
    typer.Option(
        "--directory",
        envvar="TIDELOG_CLUSTER",
        help="Where the cluster keeps its data and its logs.",
        metavar="DIR",
    ),
]
Process = Annotated[
    str, typer.Argument(help="Id of the broker, or `zookeeper`.", metavar="BROKER|zookeeper", show_default=False)
]
BrokerId = Annotated[int, typer.Argument(help="Id of the broker.", metavar="BROKER", show_default=False)]
