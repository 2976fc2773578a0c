"""What the tree notes about logs that were adopted, in one node of our own: `/tidelog/adoption`.

A directory of Apache Kafka's holds records but no topic settings: those are in ZooKeeper. A topic whose settings are
not known is adopted with `KEEP_EVERYTHING`, and stays listed in the node until its settings change, so that every start
can warn about it. `tidelog adopt` writes the node, and topic settings, before the broker starts.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

from tidelog.metadata import paths
from tidelog.metadata._json import Document, encode_json
from tidelog.metadata.errors import NoNodeError
from tidelog.metadata.store import Store
from tidelog.metadata.walk import ensure_paths

KEEP_EVERYTHING: Final[Mapping[str, str]] = {
    "cleanup.policy": "delete",
    "retention.ms": "-1",
    "retention.bytes": "-1",
}
"""Overrides under which nothing is ever deleted or compacted, whatever the broker's defaults are or become."""


class AdoptionState(NamedTuple):
    """The node's content; all defaults where there is no node."""

    unsettled_topics: tuple[str, ...] = ()
    """Topics that were adopted with `KEEP_EVERYTHING` because their settings were not known."""
    are_producer_ids_checked: bool = False
    """Whether producer ids are allocated above every id in the logs that were there before this tree."""
    wants_orphans: bool = False
    """Whether the next start adopts logs that no topic of the tree accounts for."""


def read_adoption(store: Store) -> AdoptionState:
    try:
        data, _ = store.get(paths.ADOPTION)
    except NoNodeError:
        return AdoptionState()
    return decode_adoption(data) if data else AdoptionState()


def write_adoption(store: Store, state: AdoptionState) -> None:
    ensure_paths(store, [paths.ADOPTION])
    store.set(paths.ADOPTION, encode_adoption(state))


def encode_adoption(state: AdoptionState) -> bytes:
    return encode_json({"version": 1, **state._asdict()})


def decode_adoption(data: bytes) -> AdoptionState:
    document = Document(paths.ADOPTION, data)
    names = document.optional("unsettled_topics", list, [])
    return AdoptionState(
        tuple(str(name) for name in names),
        document.optional("are_producer_ids_checked", bool, False),
        document.optional("wants_orphans", bool, False),
    )


def is_unsettled(overrides: Mapping[str, str]) -> bool:
    """Whether a topic's overrides still contain `KEEP_EVERYTHING`, which adoption gave it."""
    return all(overrides.get(name) == value for name, value in KEEP_EVERYTHING.items())
