"""`tidelog completion`: prints what makes a shell complete commands, options, and names of topics, groups and profiles.

The script asks `tidelog` itself, which asks the cluster that the words typed so far name. A cluster that does not
answer within a moment has no names.
"""

import sys
from enum import StrEnum
from typing import Annotated, Final

import typer
from typer.completion import get_completion_script  # type: ignore[attr-defined]

from tidelog.cli._verbs import verb

EXAMPLE: Final = 'eval "$(tidelog completion bash)"'

_VARIABLE: Final = "_TIDELOG_COMPLETE"


class Shell(StrEnum):
    """The shells that there is completion for."""

    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


def completion(shell: Annotated[Shell, typer.Argument(help="The shell.", show_default=False)]) -> None:
    """Print the completion script of a shell, for its start file.

    bash, in ~/.bashrc: eval "$(tidelog completion bash)"; zsh, in ~/.zshrc after compinit: eval "$(tidelog completion
    zsh)"; fish: tidelog completion fish > ~/.config/fish/completions/tidelog.fish
    """
    script = get_completion_script(prog_name="tidelog", complete_var=_VARIABLE, shell=shell.value)
    sys.stdout.write(f"{script}\n")


def register(application: typer.Typer) -> None:
    """Add the command."""
    verb(application, "completion", completion, EXAMPLE)
