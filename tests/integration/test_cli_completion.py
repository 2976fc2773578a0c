"""Completion where it is used: in bash, zsh and fish on a terminal, with the topics and groups of a running broker."""

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
import typer

from tests.integration.cli_support import SOURCE, run_here
from tidelog.cli._names import group_names, topic_names
from tidelog.cli.app import build
from tidelog.testing import Broker

SHELLS = {
    "bash": (["bash", "--norc", "--noprofile"], 'eval "$(tidelog completion bash)"'),
    "zsh": (["zsh", "-f"], 'autoload -Uz compinit && compinit -u -D && eval "$(tidelog completion zsh)"'),
    "fish": (["fish", "--no-config"], "tidelog completion fish | source"),
}
DEADLINE_S = 60.0


class Terminal:
    """A tmux server of its own, with a window for each shell."""

    def __init__(self, directory: Path, environment: dict[str, str]) -> None:
        self._words = ["tmux", "-S", str(directory / "tmux"), "-f", "/dev/null"]
        self._environment = environment

    def __call__(self, *words: str) -> str:
        done = subprocess.run([*self._words, *words], capture_output=True, text=True, env=self._environment, timeout=20)
        assert done.returncode == 0, done
        return done.stdout

    def open(self, *program: str) -> str:
        """Start a program in a window; returns what names it from then on."""
        return self("new-window", "-d", "-P", "-F", "#{pane_id}", *program).strip()

    def wait_for(self, pane: str, text: str) -> None:
        until = time.monotonic() + DEADLINE_S
        while text not in (screen := self("capture-pane", "-p", "-t", pane)):
            assert time.monotonic() < until, f"no {text!r} on the screen:\n{screen}"
            time.sleep(0.05)


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Terminal]:
    if shutil.which("tmux") is None:
        pytest.skip("tmux is not installed: shells complete only on a terminal")
    programs = tmp_path / "bin"
    programs.mkdir()
    program = programs / "tidelog"
    program.write_text(f'#!/bin/sh\nPYTHONPATH={SOURCE} exec {sys.executable} -m tidelog "$@"\n')
    program.chmod(0o755)
    with Broker(process=True) as broker:
        broker.create_topic("payments")
        # Committed offsets make a group, without the time that a member takes to join.
        to = ("--topic", "payments", "--to-earliest", "--execute")
        assert run_here("group", "reset", "billing", *to, server=broker.bootstrap_servers).code == 0
        terminal = Terminal(
            tmp_path,
            {
                **{name: value for name, value in os.environ.items() if not name.startswith("TMUX")},
                "PATH": f"{programs}:{os.environ['PATH']}",
                "HOME": str(tmp_path),
                "XDG_CONFIG_HOME": str(tmp_path / "config"),
                "XDG_DATA_HOME": str(tmp_path / "data"),
                "TERM": "xterm",
                "LC_ALL": "C.UTF-8",
                "TIDELOG_BOOTSTRAP_SERVERS": broker.bootstrap_servers,
            },
        )
        terminal("new-session", "-d", "-x", "150", "-y", "50", "-s", "first", "sleep 1000")
        try:
            yield terminal
        finally:
            terminal("kill-server")


def test_shells_complete_the_topics_of_the_cluster(terminal: Terminal) -> None:
    complete(terminal, {"topic describe pay": "topic describe payments"})


@pytest.mark.long
def test_shells_complete_groups_options_and_commands(terminal: Terminal) -> None:
    complete(
        terminal,
        {
            "group describe bil": "group describe billing",
            "consume payments --from-b": "consume payments --from-beginning",
            "comple": "completion",
        },
    )


def complete(terminal: Terminal, lines: Mapping[str, str]) -> None:
    """Type each line and a tab, and wait for what the line then has, in all shells at the same time."""
    there = {shell: terminal.open(*SHELLS[shell][0]) for shell in SHELLS if shutil.which(shell) is not None}
    for shell, pane in there.items():
        terminal("send-keys", "-t", pane, f"{SHELLS[shell][1]}; echo read''y", "Enter")
    for pane in there.values():
        terminal.wait_for(pane, "\nready")
    for typed, completed in lines.items():
        for pane in there.values():
            terminal("send-keys", "-t", pane, f"tidelog {typed}", "Tab")
        for pane in there.values():
            terminal.wait_for(pane, f"tidelog {completed}")
            terminal("send-keys", "-t", pane, "C-c")
    if len(there) < len(SHELLS):
        pytest.skip(f"not installed: {', '.join(SHELLS.keys() - set(there))}; {', '.join(there)} complete")


def test_a_cluster_that_does_not_answer_has_no_names_and_prints_no_error(capfd: pytest.CaptureFixture[str]) -> None:
    context = typer.Context(typer.main.get_command(build("consume")))
    context.params = {"bootstrap_server": "127.0.0.1:1"}
    assert topic_names(context, "") == group_names(context, "") == []
    assert capfd.readouterr() == ("", "")
