"""Where the partitions of a machine are, and how they come to other cores: a rename each, while no core runs.

`settle` is called before the cores start. It finishes moves that a crash interrupted, empties the directories of cores
that are no longer there, and spreads the partitions over the cores if that is asked for. The tree follows the
directories: see `tidelog.metadata.relocation`.
"""

from __future__ import annotations

import logging
import os
import shutil
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress

from tidelog.cluster.cores.layout import FIRST, broker_id_of, cores_with_data, directory_of
from tidelog.config import BrokerConfig
from tidelog.metadata import paths
from tidelog.metadata.errors import NoNodeError
from tidelog.metadata.relocation import lead_alone, relocate_replicas
from tidelog.metadata.store import Store
from tidelog.storage.directories.log_directory import CORES_DIRECTORY, LogDirectory, PartitionState
from tidelog.storage.directories.relocation import (
    DirectoryMove,
    Reach,
    move_directories,
    read_journal,
    remove_journal,
    write_journal,
)
from tidelog.storage.errors import StorageError
from tidelog.wire.partitions import PartitionKey

logger = logging.getLogger(__name__)

JOURNAL_NAME = "moves.json"


def spread(placed: Mapping[PartitionKey, int], cores: Sequence[int]) -> dict[PartitionKey, int]:
    """The new core of each partition that is to move, so that each topic, and all of them, are spread evenly.

    No more move than that takes. What is on a core that is not among `cores` moves in any case.
    """
    totals = Counter(dict.fromkeys(cores, 0))
    by_topic: defaultdict[str, dict[int, list[int]]] = defaultdict(lambda: {core: [] for core in cores})
    homeless: list[PartitionKey] = []
    for (topic, index), core in sorted(placed.items()):
        if core in totals:
            by_topic[topic][core].append(index)
            totals[core] += 1
        else:
            homeless.append((topic, index))
    for topic, index in homeless:
        _give(by_topic[topic], index, totals)
    for held in by_topic.values():
        while (fullest := max(cores, key=lambda core: (len(held[core]), totals[core]))) != (
            emptiest := min(cores, key=lambda core: (len(held[core]), totals[core]))
        ) and len(held[fullest]) - len(held[emptiest]) > 1:
            totals[fullest] -= 1
            _give(held, held[fullest].pop(), totals)
    _even_out(list(by_topic.values()), totals)
    return {
        (topic, index): core
        for topic, held in by_topic.items()
        for core, indexes in held.items()
        for index in indexes
        if placed[topic, index] != core
    }


def _give(held: dict[int, list[int]], index: int, totals: Counter[int]) -> None:
    core = min(totals, key=lambda each: (len(held[each]), totals[each], each))
    held[core].append(index)
    totals[core] += 1


def _even_out(topics: Sequence[dict[int, list[int]]], totals: Counter[int]) -> None:
    """Move partitions of topics that another core may have one more of, from the fullest core to the emptiest."""
    has_moved = True
    while has_moved:
        has_moved = False
        for held in topics:
            fullest, emptiest = max(totals, key=totals.__getitem__), min(totals, key=totals.__getitem__)
            if totals[fullest] - totals[emptiest] < 2:
                return
            if len(held[fullest]) > len(held[emptiest]):
                held[emptiest].append(held[fullest].pop())
                totals[fullest] -= 1
                totals[emptiest] += 1
                has_moved = True


def plan_moves(config: BrokerConfig, count: int, *, balance: bool) -> list[DirectoryMove]:
    """The partitions that have to leave cores above `count` and, with `balance`, those that would spread the load."""
    found = _found(config)
    # Two replicas of a partition on one machine stay where they are, unless their core goes.
    movable = {key: places[0] for key, places in found.items() if len(places) == 1}
    wanted = {key: core for key, (core, _) in movable.items() if balance or core > count}
    targets = spread(wanted, range(1, count + 1))
    return [
        DirectoryMove(*key, directory_of(movable[key][1], movable[key][0]), directory_of(movable[key][1], core))
        for key, core in sorted(targets.items())
    ]


def _found(config: BrokerConfig) -> dict[PartitionKey, list[tuple[int, str]]]:
    """The cores and log directories that have each partition."""
    found: defaultdict[PartitionKey, list[tuple[int, str]]] = defaultdict(list)
    for core in cores_with_data(config):
        for log_dir in config.log_dirs:
            path = directory_of(log_dir, core)
            if os.path.isdir(path):
                for each in LogDirectory(path).partitions():
                    if each.state is PartitionState.LIVE:
                        found[each.topic_partition].append((core, log_dir))
    return found


def needs_settling(config: BrokerConfig, count: int) -> bool:
    """Whether `settle` has anything to do before `count` cores start. One look at the disk where it never had more."""
    if not any(os.path.isdir(os.path.join(log_dir, CORES_DIRECTORY)) for log_dir in config.log_dirs):
        return False
    return count == FIRST or max(cores_with_data(config)) > count or os.path.exists(journal_path(config))


def journal_path(config: BrokerConfig) -> str:
    """The journal of moves that are under way, in the first of the log directories."""
    return os.path.join(config.log_dirs[0], CORES_DIRECTORY, JOURNAL_NAME)


def settle(
    config: BrokerConfig,
    count: int,
    open_store: Callable[[], Store],
    *,
    balance: bool = False,
    reach: Reach = lambda _place: None,
) -> int:
    """Carry out the moves that are due; the number of partitions that moved. No core may be running."""
    journal = journal_path(config)
    moves = read_journal(journal)
    if moves:
        logger.warning("going on with moving %d partitions, which was interrupted", len(moves))
    else:
        moves = plan_moves(config, count, balance=balance)
    is_alone = config.zookeeper_connect is None
    if not moves and not (count == FIRST and is_alone):
        _retire(config, count)
        return 0
    store = open_store()
    try:
        if moves:
            _carry_out(config, moves, store, journal, reach)
        if count == FIRST and is_alone:
            broker_id = broker_id_of(config, FIRST)
            if broker_id is not None:
                lead_alone(store, broker_id)
        elif not is_alone:
            # A controller on another machine goes by what it read; the next one reads everything.
            with suppress(NoNodeError):
                store.delete(paths.CONTROLLER)
    finally:
        store.close()
    _retire(config, count)
    return len(moves)


def _carry_out(config: BrokerConfig, moves: Sequence[DirectoryMove], store: Store, journal: str, reach: Reach) -> None:
    cores = {directory_of(log_dir, core): core for log_dir in config.log_dirs for core in cores_with_data(config)}
    ids = {path: _broker_id(config, cores[path]) for move in moves for path in (move.source, move.target)}
    write_journal(journal, moves)
    reach("journal written")
    move_directories(moves, reach)
    reach("directories moved")
    relocate_replicas(store, {move.key: (ids[move.source], ids[move.target]) for move in moves})
    reach("tree written")
    remove_journal(journal)
    logger.info("moved %d partitions to other cores", len(moves))


def _broker_id(config: BrokerConfig, core: int) -> int:
    broker_id = broker_id_of(config, core)
    if broker_id is None:
        raise StorageError(f"no meta.properties of core {core} in {', '.join(config.log_dirs)} says which broker it is")
    return broker_id


def _retire(config: BrokerConfig, count: int) -> None:
    """Remove the directories of cores above `count`; one that still holds records stays, and is named."""
    for core in cores_with_data(config):
        if core <= count:
            continue
        for log_dir in config.log_dirs:
            path = directory_of(log_dir, core)
            if os.path.isdir(path):
                _remove_unless_used(path)
    if count == FIRST:
        for log_dir in config.log_dirs:
            _remove_directory_of_cores(os.path.join(log_dir, CORES_DIRECTORY))


def _remove_directory_of_cores(path: str) -> None:
    """Sockets and the supervisor's state are left where it was killed; directories that still hold records stay."""
    if not os.path.isdir(path):
        return
    with os.scandir(path) as entries:
        for entry in entries:
            if not entry.is_dir():
                os.unlink(entry.path)
    with suppress(OSError):
        os.rmdir(path)


def _remove_unless_used(path: str) -> None:
    expendable = (PartitionState.DELETED, PartitionState.FUTURE)
    kept = [each.name for each in LogDirectory(path).partitions() if each.state not in expendable]
    if kept:
        logger.error("%s is of a core that does not serve, and still holds %s: it is kept", path, ", ".join(kept[:20]))
    else:
        shutil.rmtree(path)
