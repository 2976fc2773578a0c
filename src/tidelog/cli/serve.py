"""`tidelog serve`: run one broker until SIGTERM or SIGINT.

Called by `tidelog.__main__` without a command line framework: every import here delays the start.
"""

import sys
from collections.abc import Sequence
from functools import partial
from os.path import abspath, isdir, join
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

    from tidelog.config import BrokerConfig

HELP: Final = """\
Usage: tidelog serve [--config FILE] [--set name=value ...] [--cores N|auto] [--log-level LEVEL]
                     [--log-format FORMAT] [--console[=HOST:PORT]]

Run a broker on this machine. Kafka clients can connect as soon as it prints `tidelog ready HOST:PORT` on stdout.

Options:
  --config FILE       properties file with the settings of Kafka's server.properties
  --set name=value    one setting, which overrides the file; may be repeated
  --cores N|auto      how many cores serve clients, behind one address; auto: all of them (tidelog.cores)  [default: 1]
  --log-level LEVEL   debug, info, warning or error  [default: info]
  --log-format FORMAT text, logfmt (key=value) or json; the last two have a line for each event  [default: text]
  --console[=HOST:PORT]
                      also serve the web console, in a process beside the broker  [default: 127.0.0.1:8080]
  --console-config FILE
                      client settings of the console; needed if listeners use TLS or SASL
  -h, --help          show this message and exit

Defaults: listeners=PLAINTEXT://127.0.0.1:9092, log.dirs=./tidelog-data, metadata kept in log.dirs.
`tidelog config reference` lists every setting. SIGTERM and SIGINT start a controlled shutdown, with exit code 0.

Example: tidelog serve --set listeners=PLAINTEXT://127.0.0.1:9092 --set log.dirs=/tmp/tidelog
"""

EXIT_FAILED: Final = 1
EXIT_MISUSED: Final = 2

DEFAULT_CONSOLE: Final = "127.0.0.1:8080"

_LOG_LEVELS: Final = ("debug", "info", "warning", "error")
_LOG_FORMATS: Final = ("text", "logfmt", "json")


class ServeOptions(NamedTuple):
    """The command line options. Later `--set` override earlier ones."""

    config: str | None
    settings: tuple[tuple[str, str], ...]
    log_level: str
    wants_help: bool
    console: str | None = None
    console_config: str | None = None
    log_format: str = "text"


class UsageError(ValueError):
    """Invalid arguments of `tidelog serve`."""


def main(arguments: Sequence[str]) -> int:
    """Parse `arguments`, load the configuration and serve; returns the exit code."""
    try:
        options = parse_arguments(arguments)
    except UsageError as error:
        return _fail(f"{error}; see tidelog serve --help", EXIT_MISUSED)
    if options.wants_help:
        sys.stdout.write(HELP)
        return 0
    from tidelog.config import ConfigError, load_broker_config

    try:
        config = load_broker_config(read_settings(options))
    except (ConfigError, UsageError) as error:
        return _fail(str(error), EXIT_MISUSED)
    from tidelog.cli._logging import configure_logging

    configure_logging(options.log_level, options.log_format, sys.stderr)
    from tidelog.metadata.errors import StoreError
    from tidelog.storage.errors import StorageError

    try:
        run = _serving(config)
        if options.console is None:
            return run(announce)
        from tidelog.cli._console_process import ConsoleProcess

        with ConsoleProcess(options.console, options.console_config) as console:

            def on_ready(address: str) -> None:
                announce(address)
                console.start(address)

            return run(on_ready)
    except ConfigError as error:
        return _fail(str(error), EXIT_MISUSED)
    except (StorageError, StoreError) as error:
        return _fail(str(error), EXIT_FAILED)
    except OSError as error:
        return _fail(_os_error_text(error), EXIT_FAILED)


def _serving(config: "BrokerConfig") -> "Callable[[Callable[[str], None]], int]":
    """What serves until a signal: one broker in this process, or a process for each core. Raises ConfigError."""
    from tidelog.storage.directories.log_directory import CORES_DIRECTORY

    if config.tidelog_cores == "1" and not any(isdir(join(each, CORES_DIRECTORY)) for each in config.log_dirs):
        from tidelog.broker.server import run

        return partial(run, config)
    from tidelog.cluster.cores.layout import core_count

    count = core_count(config)
    if count > 1:
        from tidelog.cluster.cores.supervisor import CoreSupervisor

        return lambda on_ready: CoreSupervisor(config, count, on_ready).run()
    from tidelog.broker.server import run
    from tidelog.broker.stores import open_store
    from tidelog.cluster.cores.moves import needs_settling, settle

    if needs_settling(config, count):
        settle(config, count, lambda: open_store(config, [abspath(each) for each in config.log_dirs]))
    return partial(run, config)


def announce(address: str) -> None:
    """Print the address when the broker is ready. Flushed, because the parent process waits for this line."""
    sys.stdout.write(f"tidelog ready {address}\n")
    sys.stdout.flush()


def parse_arguments(arguments: Sequence[str]) -> ServeOptions:
    """The options in `arguments`, written `--name value` or `--name=value`; raises UsageError."""
    config: str | None = None
    settings: list[tuple[str, str]] = []
    log_level = "info"
    log_format = "text"
    console: str | None = None
    console_config: str | None = None
    words = iter(arguments)
    for word in words:
        if word in {"-h", "--help"}:
            return ServeOptions(None, (), log_level, wants_help=True)
        option, equals, value = word.partition("=")
        if option == "--console":
            # Its value is optional, so it is only taken after an equals sign.
            console = value or DEFAULT_CONSOLE
            continue
        if option not in {"--config", "--set", "--log-level", "--log-format", "--console-config", "--cores"}:
            raise UsageError(f"unknown argument {word!r}")
        if not equals:
            value = next(words, "")
        if not value:
            raise UsageError(f"{option} needs a value")
        if option == "--config":
            config = value
        elif option == "--console-config":
            console_config = value
        elif option == "--set":
            settings.append(parse_setting(value))
        elif option == "--cores":
            settings.append(("tidelog.cores", value))
        elif option == "--log-level":
            log_level = _one_of(option, value, _LOG_LEVELS)
        else:
            log_format = _one_of(option, value, _LOG_FORMATS)
    return ServeOptions(config, tuple(settings), log_level, False, console, console_config, log_format)


def _one_of(option: str, value: str, choices: Sequence[str]) -> str:
    if value.lower() not in choices:
        raise UsageError(f"{option} {value!r} must be one of {', '.join(choices)}")
    return value.lower()


def parse_setting(text: str) -> tuple[str, str]:
    """`name=value` as a pair; raises UsageError."""
    name, equals, value = text.partition("=")
    if not equals or not name.strip():
        raise UsageError(f"--set {text!r} is not name=value")
    return name.strip(), value.strip()


def read_settings(options: ServeOptions) -> dict[str, str]:
    """The file's settings with those of the command line over them; raises ConfigError or UsageError."""
    properties: dict[str, str] = {}
    if options.config is not None:
        from tidelog.config import parse_properties

        try:
            with open(options.config, encoding="utf-8") as file:
                properties = parse_properties(file.read())
        except OSError as error:
            raise UsageError(f"--config {options.config}: {error.strerror}") from error
        except UnicodeDecodeError as error:
            raise UsageError(f"--config {options.config} is not UTF-8 text: {error.reason}") from error
    properties.update(options.settings)
    return properties


def _os_error_text(error: OSError) -> str:
    reason = error.strerror or str(error)
    return f"{error.filename}: {reason}" if error.filename else reason


def _fail(message: str, code: int) -> int:
    sys.stderr.write(f"tidelog: {message}\n")
    return code
