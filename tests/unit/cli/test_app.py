"""The whole program as far as it needs no cluster: help, mistakes, errors and exit codes."""

import re
import sys
from collections.abc import Iterator
from typing import Any

import pytest
import typer

from tidelog import __version__
from tidelog.__main__ import main
from tidelog.cli.app import COMMANDS, build
from tidelog.cli.errors import CommandError, explain
from tidelog.cli.progress import progress
from tidelog.client.errors import BootstrapFailed, BrokerUnavailable
from tidelog.config import ConfigError
from tidelog.records.errors import CorruptRecordError
from tidelog.testing import BrokerFailed
from tidelog.wire.errors import ApiError, ErrorCode

WITHOUT_FORMAT = {
    "console",  # serves pages
    "mcp",  # speaks a protocol
    "demo async",
    "demo exactly-once",
    "demo sync",
    "reassign execute",  # prints plans, which are JSON
    "reassign generate",
}


def commands(group: Any, words: tuple[str, ...] = ()) -> Iterator[tuple[str, Any]]:
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from commands(command, (*words, name))
        else:
            yield " ".join((*words, name)), command


VERBS = dict(commands(typer.main.get_command(build())))


@pytest.fixture(autouse=True)
def plain_terminal(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("TERM", "dumb")


class _Interrupting:
    """An import system in which Ctrl-C comes while the commands are imported."""

    def find_spec(self, name: str, *_: object) -> None:
        if name == "tidelog.cli.app":
            raise KeyboardInterrupt


def test_an_interrupt_while_the_commands_are_imported_ends_quietly(monkeypatch, capsys):
    monkeypatch.delitem(sys.modules, "tidelog.cli.app")
    monkeypatch.setattr(sys, "meta_path", [_Interrupting(), *sys.meta_path])
    assert main(["topic", "list"]) == 130
    assert capsys.readouterr() == ("", "")


def test_progress_that_is_interrupted_says_how_far_it_got(capsys):
    def work() -> None:
        with progress("import rows", 1000, in_logs=False) as bar:
            bar.advance(300)
            bar.advance(50)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        work()
    assert capsys.readouterr().err == "tidelog: interrupted; import rows: 350 of 1,000\n"


@pytest.mark.parametrize("words", [[], ["--help"], ["-h"]])
def test_alone_or_asked_for_help_the_program_lists_every_command(words, capsys):
    assert main(words) == 0
    said = capsys.readouterr().out
    for command in COMMANDS:
        assert f" {command} " in said


@pytest.mark.parametrize("words", ["topic create", "consume", "demo"])
def test_help_opens_with_a_sentence_and_ends_with_an_example_in_one_piece(words, capsys):
    assert main([*words.split(), "--help"]) == 0
    said = [line.strip() for line in capsys.readouterr().out.splitlines() if line.strip()]
    assert said[0].startswith(f"Usage: tidelog {words} ")
    assert "." in said[1] + said[2]
    assert said[-1].startswith(f"Example: tidelog {words}")


@pytest.mark.parametrize("words", sorted({*VERBS} - {"serve"}))  # prints its help without this framework
def test_every_command_has_a_sentence_and_an_example_that_runs_it(words):
    assert VERBS[words].help
    assert VERBS[words].epilog.replace("\b", "").strip().startswith("Example: ")
    assert f"tidelog {words}" in VERBS[words].epilog


def test_every_command_that_connects_to_a_cluster_prints_json_for_programs():
    options = {words: {name for each in command.params for name in each.opts} for words, command in VERBS.items()}
    connecting = {words for words, names in options.items() if "--bootstrap-server" in names}
    assert {words for words in connecting if "--format" not in options[words]} == WITHOUT_FORMAT


def test_the_version_is_printed(capsys):
    assert main(["--version"]) == 0
    assert re.fullmatch(rf"tidelog {__version__} \((with|without) C speedups\)\n", capsys.readouterr().out)


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["bogus"], "bogus"),
        (["topic", "bogus"], "bogus"),
        (["topic", "create"], "TOPIC"),
        (["topic", "create", "t", "--partitions", "many"], "--partitions"),
        (["consume", "t", "--format", "xml"], "--format"),
    ],
)
def test_wrong_words_are_reported_on_stderr_with_exit_code_2(words, complaint, capsys):
    assert main(words) == 2
    said = capsys.readouterr()
    assert complaint in said.err
    assert said.out == ""


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["topic", "alter", "t"], "nothing to change"),
        (["topic", "create", "t", "--config", "retention.ms"], "--config 'retention.ms' is not name=value"),
        (["topic", "create", "t", "--replica-assignment", "a:b"], "--replica-assignment 'a:b'"),
        (["config", "describe"], "give exactly one of --topic"),
        (["config", "describe", "--topic", "t", "--broker", "1"], "give exactly one of --topic"),
        (["config", "alter", "--topic", "t"], "nothing to change"),
        (["offsets", "t", "--time", "yesterday"], "--time 'yesterday'"),
        (["delete-records", "t", "--before", "soon"], "--before 'soon'"),
        (["produce", "t", "--key-separator", ""], "--key-separator"),
        (["topic", "list", "--bootstrap-server", "nowhere:port"], "'nowhere:port', which is not host:port"),
        (["topic", "list", "--command-config", "/no/such"], "/no/such: No such file"),
        (["log", "dump", "/no/such.log"], "/no/such.log: No such file"),
    ],
)
def test_what_a_command_refuses_is_one_line_on_stderr_with_exit_code_1(words, complaint, capsys):
    assert main(words) == 1
    said = capsys.readouterr()
    assert said.err.startswith("tidelog: ")
    assert complaint in said.err
    assert said.err.count("\n") == 1


def test_missing_extras_are_named_with_the_command_that_installs_them(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "typer", None)
    monkeypatch.delitem(sys.modules, "tidelog.cli.app", raising=False)
    assert main(["topic", "list"]) == 1
    assert "pip install 'tidelog[cli]'" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "topic 't'"), "topic 't' (UNKNOWN_TOPIC_OR_PARTITION)"),
        (BrokerUnavailable("h:1", "refused", "check it"), "no broker at h:1: refused (check it)"),
        (
            BootstrapFailed({"h:1": "refused", "h:2": "timed out"}, 1000),
            "no broker at h:1: refused; h:2: timed out (check bootstrap.servers or --bootstrap-server)",
        ),
        (ConfigError("bad"), "bad"),
        (CorruptRecordError("torn"), "torn"),
        (CommandError("no"), "no"),
        (BrokerFailed("exit code 1"), "exit code 1"),
        (FileNotFoundError(2, "No such file or directory", "f"), "f: No such file or directory"),
        (ZeroDivisionError(), None),
        (OSError("without number"), None),
    ],
)
def test_errors_that_were_foreseen_become_a_line(error, line):
    assert explain(error) == line


def test_the_settings_of_a_client_file_are_used(tmp_path, capsys):
    file = tmp_path / "client.properties"
    file.write_text("bootstrap.servers=127.0.0.1:1\nrequest.timeout.ms=soon\n", encoding="utf-8")
    assert main(["topic", "list", "--command-config", str(file)]) == 1
    assert "Invalid value soon for configuration request.timeout.ms" in capsys.readouterr().err


def test_a_sasl_mechanism_without_its_login_is_refused(tmp_path, capsys):
    file = tmp_path / "client.properties"
    file.write_text("security.protocol=SASL_SSL\n", encoding="utf-8")
    assert main(["topic", "list", "--command-config", str(file)]) == 1
    assert "sasl.jaas.config is needed for GSSAPI" in capsys.readouterr().err


def test_a_file_to_dump_that_is_not_there_is_reported_as_such(tmp_path, capsys):
    assert main(["log", "dump", str(tmp_path / "0.log")]) == 1
    assert capsys.readouterr() == ("", f"tidelog: {tmp_path}/0.log: No such file or directory\n")


def test_an_empty_token_of_the_console_is_refused_and_not_taken_for_no_login(capsys, monkeypatch):
    """A script passes it where a variable is not set."""

    def serve(*_: object, **_options: object) -> None:
        raise AssertionError("it must not serve")

    monkeypatch.setattr("tidelog.console.server.asyncio.run", serve)
    assert main(["console", "--bootstrap-server", "127.0.0.1:1", "--listen", "127.0.0.1:0", "--token", ""]) == 1
    assert "--token must have at least 16 characters" in capsys.readouterr().err


def test_help_has_pages_and_the_help_of_commands(capsys):
    assert main(["help"]) == 0
    pages = re.findall(r"^  (\w+)  ", capsys.readouterr().out, re.MULTILINE)
    assert {"profiles", "templates", "times"} <= {*pages}
    for page in pages:
        assert main(["help", page]) == 0
        assert len(capsys.readouterr().out) > 200
    assert main(["help", "topic", "create"]) == 0
    assert "Usage: tidelog topic create" in capsys.readouterr().out
    assert main(["help", "tempaltes"]) == 1
    assert "did you mean 'templates'?" in capsys.readouterr().err
