"""The words of `tidelog serve`, and that it starts without a command line framework."""

import pytest

from tidelog.cli.serve import (
    ServeOptions,
    UsageError,
    main,
    parse_arguments,
    read_settings,
)


def test_options_are_taken_with_space_or_equals_sign():
    words = ["--config", "a.properties", "--set", "num.partitions=3", "--set=log.dirs=/tmp/x=y", "--log-level=DEBUG"]
    assert parse_arguments(words) == ServeOptions(
        "a.properties", (("num.partitions", "3"), ("log.dirs", "/tmp/x=y")), "debug", wants_help=False
    )


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["--port", "1"], "unknown argument '--port'"),
        (["now"], "unknown argument 'now'"),
        (["--log-format", "xml"], "--log-format 'xml' must be one of text, logfmt, json"),
        (["--config"], "--config needs a value"),
        (["--console-config"], "--console-config needs a value"),
        (["--set", "num.partitions"], "--set 'num.partitions' is not name=value"),
        (["--set", "=3"], "--set '=3' is not name=value"),
        (["--log-level", "loud"], "'loud' must be one of debug, info"),
    ],
)
def test_what_is_not_understood_is_named(words, complaint):
    with pytest.raises(UsageError, match=complaint):
        parse_arguments(words)


def test_the_command_line_wins_over_the_file_and_the_last_word_over_the_first(tmp_path):
    file = tmp_path / "server.properties"
    file.write_text("num.partitions=1\nlog.dirs = /a\n", encoding="utf-8")
    options = parse_arguments(["--set", "num.partitions=2", "--config", str(file), "--set", "num.partitions=3"])
    assert read_settings(options) == {"num.partitions": "3", "log.dirs": "/a"}


def test_the_console_has_a_default_address_and_takes_another_after_an_equals_sign():
    assert parse_arguments([]).console is None
    assert parse_arguments(["--console", "--set", "log.dirs=/a"]).console == "127.0.0.1:8080"
    options = parse_arguments(["--console=127.0.0.1:9000", "--console-config", "client.properties"])
    assert (options.console, options.console_config) == ("127.0.0.1:9000", "client.properties")


def test_a_setting_may_be_set_to_nothing():
    assert parse_arguments(["--set", "log.dirs="]).settings == (("log.dirs", ""),)


@pytest.mark.parametrize(
    ("words", "complaints"),
    [
        (["--set", "num.partitions=many"], ["num.partitions", "many"]),
        (["--set", "num.partitons=3"], ["num.partitons", "num.partitions"]),
        (["--set", "num.partitions=0"], ["num.partitions", "0"]),
        (["--config", "/no/such/file"], ["/no/such/file", "No such file"]),
        (["--bogus"], ["--bogus", "tidelog serve --help"]),
    ],
)
def test_a_configuration_error_is_one_line_and_exit_code_2(words, complaints, capsys):
    assert main(words) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith("tidelog: ")
    assert all(complaint in said.err for complaint in complaints)


def test_a_file_that_is_no_text_is_refused(tmp_path, capsys):
    file = tmp_path / "server.properties"
    file.write_bytes(b"\xff\xfe")
    assert main(["--config", str(file)]) == 2
    assert "not UTF-8" in capsys.readouterr().err


def test_help_ends_with_an_example(capsys):
    assert main(["--help"]) == 0
    assert capsys.readouterr().out.splitlines()[-1].startswith("Example: tidelog serve ")
