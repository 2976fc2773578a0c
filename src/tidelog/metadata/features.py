"""The features of a cluster: behaviour that begins only when every broker can do it (KIP-584).

`FEATURES` is the table of what this broker supports. Which level of each is finalised, and so in effect in the whole
cluster, is in the tree under `/feature`; what the other brokers support is in their registrations. A feature that the
tree does not name has its `implied` level: what brokers did before there were levels of it.

Functions with a `store` run on the thread of the metadata (`store_queue`).
"""

import logging
from collections.abc import Callable, Mapping
from enum import IntEnum
from typing import Final, NamedTuple

from tidelog.metadata import paths
from tidelog.metadata.errors import BadVersionError, MalformedNodeError, NoNodeError, StoreError
from tidelog.metadata.store import Store, Watcher, join_path
from tidelog.metadata.tree import NO_LEVELS, decode_broker, decode_features, encode_features
from tidelog.metadata.walk import create_if_missing

logger = logging.getLogger(__name__)

TRANSACTION_VERSION: Final = "transaction.version"
GROUP_VERSION: Final = "group.version"
SHARE_VERSION: Final = "share.version"
DEAD_LETTERS_FROM: Final = 2
"""The level of share groups from which they have dead letters (KIP-1191)."""
STREAMS_VERSION: Final = "streams.version"


class Feature(NamedTuple):
    """What this broker supports of a feature: the levels from 0, which is off, to `max_level`."""

    name: str
    max_level: int
    implied: int = 0
    """The level where the tree does not name the feature."""


FEATURES: Final[Mapping[str, Feature]] = {
    feature.name: feature
    for feature in (
        Feature(GROUP_VERSION, 1, implied=1),
        Feature(SHARE_VERSION, 2),
        Feature(STREAMS_VERSION, 1),
        Feature(TRANSACTION_VERSION, 2),
    )
}
"""One row for each feature. A highest level of 0 is not served: no client sees the feature."""

SUPPORTED: Final[Mapping[str, int]] = {
    feature.name: feature.max_level for feature in FEATURES.values() if feature.max_level
}
"""The highest level of each feature that is served; part of this broker's registration."""


class UnreachableLevelError(StoreError):
    """The cluster has finalised a level that this broker does not know."""

    def __init__(self, name: str, level: int) -> None:
        has = f"supports levels up to {SUPPORTED[name]}" if name in SUPPORTED else "does not know the feature"
        super().__init__(
            f"the cluster has finalised level {level} of {name}, and this version of Tidelog {has}: start a newer "
            f"version, or lower the level first on a broker that has it (tidelog features downgrade)"
        )


class Finalised(NamedTuple):
    """What the tree says: levels by name, and an epoch that grows with every change."""

    levels: Mapping[str, int]
    epoch: int

    def level(self, name: str) -> int:
        """The level in effect."""
        feature = FEATURES.get(name, Feature(name, 0))
        return min(self.levels.get(name, feature.implied), feature.max_level)

    def in_effect(self) -> dict[str, int]:
        """The level in effect of every feature that is on."""
        levels = {name: self.level(name) for name in SUPPORTED}
        return {name: level for name, level in levels.items() if level}

    @property
    def is_raised(self) -> bool:
        """Whether some feature is above its implied level: brokers of versions without features cannot be members."""
        return any(self.level(name) > FEATURES[name].implied for name in SUPPORTED)


NOTHING_FINALISED: Final = Finalised(NO_LEVELS, 0)

Support = Mapping[int, Mapping[str, int]]
"""What each registered broker supports: the highest level of each feature that it knows, by broker id."""


class UpgradeType(IntEnum):
    """What an update may do, in the codes of UpdateFeatures."""

    UPGRADE = 1
    SAFE_DOWNGRADE = 2
    UNSAFE_DOWNGRADE = 3


class Update(NamedTuple):
    """One feature of UpdateFeatures. A code of no `UpgradeType` is None."""

    name: str
    level: int
    upgrade_type: UpgradeType | None


class Refusal(NamedTuple):
    """Why an update is not made: as Kafka 4 says it, and as Kafka 3.9 says it in ZooKeeper mode."""

    text: str
    older_text: str


def refusal_of(update: Update, finalised: Finalised, support: Support) -> Refusal | None:
    """Why the update cannot be made; None if it can, or if nothing changes."""
    return _objection_to_form(update) or _objection_to_level(update, support) or _objection_to_type(update, finalised)


def refusal_before_v2(update: Update, finalised: Finalised) -> str | None:
    """What only the older form of an update demands: that 0 deletes a feature which is there, by a downgrade."""
    if update.level >= 1 or not update.name or update.upgrade_type is None:
        return None
    if update.upgrade_type is UpgradeType.UPGRADE:
        return (
            f"Can not provide versionLevel: {update.level} less than 1 without setting the SAFE downgradeType "
            "in the request."
        )
    return None if finalised.level(update.name) else "Can not delete non-existing finalized feature."


def _objection_to_form(update: Update) -> Refusal | None:
    if not update.name:
        return Refusal("A feature needs a name.", "Feature name can not be empty.")
    if update.upgrade_type is None:
        return Refusal("The controller does not support the given upgrade type.", "Received unknown upgrade type.")
    if update.level < 0:
        return Refusal(text := "A feature version cannot be less than 0.", text)
    return None


def _objection_to_level(update: Update, support: Support) -> Refusal | None:
    """The level has to be known here and, unless it is what the tree need not name, to every other broker."""
    name, level, _ = update
    own = SUPPORTED.get(name, 0)
    if level > own:
        older = f"the level is above {own}" if own else "the provided feature is not supported"
        return Refusal(f"The controller {_range(own)}.", f"Could not apply finalized feature update because {older}.")
    if name not in SUPPORTED or level == FEATURES[name].implied:
        return None
    for broker_id, levels in sorted(support.items()):
        if name not in levels or level > levels[name]:
            text = f"Broker {broker_id} {_range(levels.get(name, 0))}."
            return Refusal(text, f"Could not apply finalized feature update: {text}")
    return None


def _range(highest: int) -> str:
    return f"only supports versions 0-{highest}" if highest else "does not support this feature"


def _objection_to_type(update: Update, finalised: Finalised) -> Refusal | None:
    current = finalised.level(update.name)
    is_upgrade = update.upgrade_type is UpgradeType.UPGRADE
    if update.level < current and is_upgrade:
        text = (
            "Can't downgrade the version of this feature without setting the upgrade type to either safe or "
            "unsafe downgrade."
        )
        return Refusal(text, text)
    if update.level > current and not is_upgrade:
        return Refusal(text := "Can't downgrade to a newer version.", text)
    return None


def with_levels(finalised: Finalised, changes: Mapping[str, int]) -> dict[str, int]:
    """What the tree is to say. A feature at its implied level is not named, so that older brokers may join."""
    levels = {**finalised.levels, **changes}
    return {name: level for name, level in levels.items() if name not in FEATURES or level != FEATURES[name].implied}


def common_levels(finalised: Finalised, support: Support) -> dict[str, int]:
    """The finalised levels, lowered to what every registered broker supports."""
    levels = dict(finalised.levels)
    for supported in support.values():
        for name in list(levels):
            if name not in supported:
                del levels[name]
            else:
                levels[name] = min(levels[name], supported[name])
    return levels


# --- in the tree ---


def finalise_all(store: Store) -> None:
    """For a new cluster of brokers like this one: every feature at its highest level."""
    create_if_missing(store, paths.FEATURES, encode_features(with_levels(NOTHING_FINALISED, SUPPORTED)))


def read_finalised(store: Store, on_change: Watcher | None = None) -> Finalised:
    """What is finalised. Watches for changes."""
    while True:
        try:
            data, stat = store.get(paths.FEATURES, on_change)
            return Finalised(decode_features(data), stat.version)
        except NoNodeError:
            if store.exists(paths.FEATURES, on_change) is None:
                return NOTHING_FINALISED


def read_support(store: Store, on_change: Watcher | None = None) -> dict[int, Mapping[str, int]]:
    """What the registered brokers support. Watches for brokers that come and go."""
    names = [name for name in store.children(paths.BROKER_IDS, on_change) if name.isdecimal()]
    found = store.get_many([join_path(paths.BROKER_IDS, name) for name in names])
    support: dict[int, Mapping[str, int]] = {}
    for name, node in zip(names, found, strict=True):
        if node is not None:
            try:
                support[int(name)] = decode_broker(int(name), node[0]).features
            except MalformedNodeError as error:
                logger.warning("what broker %s supports cannot be read: %s", name, error)
                support[int(name)] = NO_LEVELS
    return support


def change_levels(store: Store, decide: Callable[[Finalised, Support], Mapping[str, int]]) -> Finalised:
    """Write the levels that `decide` makes of what the tree says, again if another broker was faster."""
    while True:
        finalised, support = read_finalised(store), read_support(store)
        levels = decide(finalised, support)
        if levels == finalised.levels:
            return finalised
        # Made empty first: the epoch of a tree without the node is that of its first version.
        create_if_missing(store, paths.FEATURES, encode_features())
        try:
            stat = store.set(paths.FEATURES, encode_features(levels), finalised.epoch)
        except (BadVersionError, NoNodeError):
            continue
        return Finalised(levels, stat.version)


def check_reachable(finalised: Finalised) -> None:
    """Raise `UnreachableLevelError` for a level that this broker does not have."""
    for name, level in finalised.levels.items():
        if level > SUPPORTED.get(name, 0):
            raise UnreachableLevelError(name, level)
