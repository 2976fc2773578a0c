"""`tidelog cores`: the cores of this machine, as `tidelog serve --cores N` runs them, and their partitions."""

import os
import time
from collections import Counter
from pathlib import Path
from typing import Annotated, Final

import typer

from tidelog.cli._verbs import noun, verb
from tidelog.cli.errors import CommandError
from tidelog.cli.output import Result, Table
from tidelog.cli.progress import waiting
from tidelog.cli.serve import ServeOptions, UsageError, parse_setting, read_settings
from tidelog.cluster.cores.layout import (
    broker_id_of,
    cores_with_data,
    directories_of,
    directory_of,
)
from tidelog.cluster.cores.moves import plan_moves
from tidelog.cluster.cores.supervisor import REBALANCE_SIGNAL, State, read_state
from tidelog.config import BrokerConfig, ConfigError, load_broker_config
from tidelog.storage.directories.log_directory import LogDirectory, PartitionState
from tidelog.storage.errors import StorageError

_WAIT_SECONDS: Final = 120.0
_POLL_SECONDS: Final = 0.05

ConfigFile = Annotated[
    Path | None,
    typer.Option("--config", help="The settings file that `tidelog serve` was started with.", metavar="FILE"),
]
SetOption = Annotated[
    list[str] | None,
    typer.Option(
        "--set", help="A setting that `tidelog serve` was started with; may be repeated.", metavar="NAME=VALUE"
    ),
]


def register(application: typer.Typer) -> None:
    """Add the noun and its verbs."""
    cores = noun(application, "cores", "The cores of this machine, as `tidelog serve --cores` runs them.")
    verb(cores, "status", status, "tidelog cores status --config server.properties")
    verb(cores, "rebalance", rebalance, "tidelog cores rebalance --config server.properties")


def status(config: ConfigFile = None, settings: SetOption = None) -> Result:
    """Show the cores, their broker ids, and how many partitions and bytes each has."""
    loaded = _load(config, settings)
    state = read_state(loaded)
    rows = [(core, _id_text(loaded, core), *_contents(loaded, core)) for core in _cores(loaded, state)]
    document = {
        "pid": None if state is None else state.pid,
        "address": None if state is None else state.address,
        "is_serving": state is not None and state.is_serving,
        "cores": [
            {"core": core, "broker": broker_id_of(loaded, core), "partitions": partitions, "bytes": size}
            for core, _, partitions, size in rows
        ],
    }
    said = "not running" if state is None else f"process {state.pid} serves {state.cores} cores on {state.address}"
    return Result(document, Table(headings=("CORE", "BROKER", "PARTITIONS", "BYTES"), rows=rows, after=f"\n{said}"))


def rebalance(
    config: ConfigFile = None,
    settings: SetOption = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only show which partitions would move, and stop nothing.")
    ] = False,
) -> Result:
    """Spread the partitions of this machine evenly over its cores, by renaming their directories.

    The cores stop for it, in order, and start again: clients wait about a second. An interrupted run is finished
    before the cores start the next time.
    """
    loaded = _load(config, settings)
    state = read_state(loaded)
    if state is None:
        raise CommandError(f"no `tidelog serve --cores` runs on log.dirs={','.join(loaded.log_dirs)}: start it first")
    cores = {directory_of(each, core): core for each in loaded.log_dirs for core in cores_with_data(loaded)}
    moves = [
        (f"{move.topic}-{move.partition}", cores[move.source], cores[move.target])
        for move in plan_moves(loaded, state.cores, balance=True)
    ]
    if moves and not dry_run:
        state = _rebalance(loaded, state)
    document = {
        "is_done": not dry_run,
        "moves": [{"partition": name, "from": source, "to": target} for name, source, target in moves],
    }
    after = "" if dry_run else f"\n{state.moved if moves else 0} partitions moved; every core serves"
    return Result(
        document,
        Table(
            headings=("PARTITION", "FROM CORE", "TO CORE"),
            rows=moves,
            after=after,
            nothing="the partitions are spread evenly already",
        ),
    )


def _rebalance(config: BrokerConfig, before: State) -> State:
    with waiting("stopping the cores, moving directories, starting the cores"):
        os.kill(before.pid, REBALANCE_SIGNAL)
        deadline = time.monotonic() + _WAIT_SECONDS
        while time.monotonic() < deadline:
            state = read_state(config)
            if state is None:
                raise CommandError("the supervisor has ended: its log says why, and the next start goes on")
            if state.rebalanced > before.rebalanced and state.is_serving:
                return state
            time.sleep(_POLL_SECONDS)
    raise CommandError(f"the cores did not serve again within {_WAIT_SECONDS:.0f} s: the log of the server says why")


def _load(path: Path | None, settings: list[str] | None) -> BrokerConfig:
    try:
        pairs = tuple(parse_setting(each) for each in settings or ())
        options = ServeOptions(None if path is None else str(path), pairs, "info", wants_help=False)
        return load_broker_config(read_settings(options))
    except (ConfigError, UsageError) as error:
        raise CommandError(str(error)) from error


def _cores(config: BrokerConfig, state: State | None) -> list[int]:
    return sorted({*cores_with_data(config), *range(1, (state.cores if state is not None else 1) + 1)})


def _id_text(config: BrokerConfig, core: int) -> str:
    try:
        broker_id = broker_id_of(config, core)
    except StorageError as error:
        raise CommandError(str(error)) from error
    return "-" if broker_id is None else str(broker_id)


def _contents(config: BrokerConfig, core: int) -> tuple[int, int]:
    """How many partitions a core has, and their bytes on disk."""
    counts: Counter[str] = Counter()
    for path in directories_of(config, core):
        if not os.path.isdir(path):
            continue
        for each in LogDirectory(path).partitions():
            if each.state is PartitionState.LIVE:
                counts["partitions"] += 1
                with os.scandir(os.path.join(path, each.name)) as files:
                    counts["bytes"] += sum(file.stat().st_size for file in files)
    return counts["partitions"], counts["bytes"]
