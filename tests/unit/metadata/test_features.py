"""Features: which levels can be finalised, what the tree says of them, and what older members do to them."""

from collections.abc import Mapping

import pytest

from tidelog.metadata import features, paths
from tidelog.metadata.features import (
    NOTHING_FINALISED,
    Feature,
    Finalised,
    UnreachableLevelError,
    Update,
    UpgradeType,
    change_levels,
    check_reachable,
    common_levels,
    finalise_all,
    read_finalised,
    read_support,
    refusal_before_v2,
    refusal_of,
    with_levels,
)
from tidelog.metadata.registration import prepare_tree, register_broker
from tidelog.metadata.store import Store
from tidelog.metadata.tree import BrokerRegistration, Endpoint, decode_features, encode_features
from tidelog.testing.memory_store import MemoryTree

TABLE = {row.name: row for row in (Feature("queues", 2), Feature("groups", 1, implied=1), Feature("later", 0))}
UPGRADE, SAFE, UNSAFE = UpgradeType


@pytest.fixture(autouse=True)
def table(monkeypatch: pytest.MonkeyPatch) -> None:
    """A table of its own: that of the broker changes with every feature that is built."""
    monkeypatch.setattr(features, "FEATURES", TABLE)
    monkeypatch.setattr(features, "SUPPORTED", {"queues": 2, "groups": 1})


def store_with(*members: Mapping[str, int]) -> Store:
    """A tree in which brokers 1, 2, … are registered that support these levels."""
    tree = MemoryTree()
    for broker_id, levels in enumerate(members, 1):
        store = tree.connect()
        prepare_tree(store)
        endpoint = Endpoint("PLAINTEXT", "localhost", 9092)
        register_broker(store, BrokerRegistration(broker_id, (endpoint,), features=levels))
    store = tree.connect()
    prepare_tree(store)
    return store


def test_a_feature_that_the_tree_does_not_name_has_its_implied_level() -> None:
    assert NOTHING_FINALISED.in_effect() == {"groups": 1}
    assert Finalised({"groups": 0, "queues": 2}, 3).in_effect() == {"queues": 2}
    assert NOTHING_FINALISED.level("no such feature") == 0


def test_a_level_above_ours_counts_as_the_highest_of_ours() -> None:
    assert Finalised({"queues": 9}, 1).level("queues") == 2


def test_the_first_broker_of_a_new_cluster_finalises_what_it_supports() -> None:
    store = store_with()
    finalise_all(store)
    assert read_finalised(store) == Finalised({"queues": 2}, 0)
    finalise_all(store)
    assert store.exists(paths.FEATURES).version == 0  # type: ignore[union-attr]


def test_an_implied_level_is_not_written_so_that_older_brokers_may_join() -> None:
    assert with_levels(Finalised({"groups": 0, "queues": 1}, 1), {"groups": 1}) == {"queues": 1}
    assert with_levels(Finalised({"queues": 1}, 1), {"queues": 0, "groups": 0}) == {"groups": 0}


def test_levels_sink_to_what_every_member_has() -> None:
    finalised = Finalised({"queues": 2, "groups": 0}, 5)
    assert common_levels(finalised, {1: {"queues": 2, "groups": 1}, 2: {"queues": 1, "groups": 1}}) == {
        "queues": 1,
        "groups": 0,
    }
    assert common_levels(finalised, {1: {}}) == {}, "a broker that names no feature is of an older version"
    assert common_levels(finalised, {}) == {"queues": 2, "groups": 0}


def test_a_change_raises_the_epoch_from_that_of_a_tree_without_the_node() -> None:
    store = store_with({"queues": 2})
    before = read_finalised(store)
    after = change_levels(store, lambda finalised, _support: with_levels(finalised, {"queues": 1}))
    assert after == read_finalised(store) == Finalised({"queues": 1}, before.epoch + 1)
    assert change_levels(store, lambda finalised, _support: finalised.levels) == after


def test_a_change_that_another_broker_overtakes_is_decided_again() -> None:
    store = store_with({"queues": 2})
    finalise_all(store)
    seen: list[Mapping[str, int]] = []

    def decide(finalised: Finalised, _support: features.Support) -> Mapping[str, int]:
        if not seen:
            store.set(paths.FEATURES, encode_features({"groups": 0}))
        seen.append(finalised.levels)
        return {**finalised.levels, "queues": 1}

    assert change_levels(store, decide).levels == {"groups": 0, "queues": 1}
    assert seen == [{"queues": 2}, {"groups": 0}]


def test_support_is_read_from_registrations() -> None:
    store = store_with({"queues": 2, "groups": 1}, {})
    assert read_support(store) == {1: {"queues": 2, "groups": 1}, 2: {}}
    store.create(paths.broker(3), b"nonsense")
    assert read_support(store)[3] == {}, "a registration that cannot be read counts as that of an older broker"


def test_kafkas_older_form_of_the_node_and_a_disabled_one_are_read() -> None:
    older = b'{"version":1,"status":1,"features":{"queues":{"min_version_level":1,"max_version_level":2}}}'
    assert decode_features(older) == {"queues": 2}
    assert decode_features(b'{"version":2,"status":0,"features":{"queues":2}}') == {}


def test_a_broker_does_not_join_a_cluster_whose_level_it_does_not_know() -> None:
    check_reachable(Finalised({"queues": 2, "unknown": 0}, 1))
    with pytest.raises(UnreachableLevelError, match=r"level 3 of queues, .* supports levels up to 2"):
        check_reachable(Finalised({"queues": 3}, 1))
    with pytest.raises(UnreachableLevelError, match=r"level 1 of unknown, .* does not know the feature"):
        check_reachable(Finalised({"unknown": 1}, 1))


EVERYWHERE = {1: {"queues": 2, "groups": 1}, 2: {"queues": 2, "groups": 1}}


@pytest.mark.parametrize(
    ("update", "current", "support", "refused"),
    [
        (Update("queues", 2, UPGRADE), {}, EVERYWHERE, None),
        (Update("queues", 2, UPGRADE), {"queues": 2}, EVERYWHERE, None),
        (Update("queues", 0, SAFE), {"queues": 2}, EVERYWHERE, None),
        (Update("queues", 1, UNSAFE), {"queues": 2}, EVERYWHERE, None),
        (Update("groups", 1, UPGRADE), {"groups": 0}, {1: {}}, None),
        (Update("no such", 0, SAFE), {}, EVERYWHERE, None),
        (Update("", 1, UPGRADE), {}, EVERYWHERE, "needs a name"),
        (Update("queues", 1, None), {}, EVERYWHERE, "upgrade type"),
        (Update("queues", -1, SAFE), {}, EVERYWHERE, "less than 0"),
        (Update("queues", 3, UPGRADE), {}, EVERYWHERE, "controller only supports versions 0-2"),
        (Update("later", 1, UPGRADE), {}, EVERYWHERE, "controller does not support"),
        (Update("queues", 2, UPGRADE), {}, {1: {"queues": 2}, 2: {"queues": 1}}, "Broker 2 only supports versions 0-1"),
        (Update("groups", 0, SAFE), {}, {1: {"groups": 1}, 7: {}}, "Broker 7 does not support"),
        (Update("queues", 1, UPGRADE), {"queues": 2}, EVERYWHERE, "Can't downgrade the version"),
        (Update("queues", 2, SAFE), {"queues": 1}, EVERYWHERE, "Can't downgrade to a newer version"),
    ],
)
def test_which_updates_can_be_made(
    update: Update, current: Mapping[str, int], support: Mapping[int, Mapping[str, int]], refused: str | None
) -> None:
    refusal = refusal_of(update, Finalised(current, 1), support)
    assert (refusal is None) if refused is None else (refusal is not None and refused in refusal.text)


def test_the_older_form_deletes_by_a_downgrade_to_0() -> None:
    finalised = Finalised({"queues": 1}, 1)
    assert refusal_before_v2(Update("queues", 0, SAFE), finalised) is None
    assert refusal_before_v2(Update("queues", 2, UPGRADE), finalised) is None
    assert "less than 1" in (refusal_before_v2(Update("queues", 0, UPGRADE), finalised) or "")
    assert "non-existing" in (refusal_before_v2(Update("later", 0, SAFE), finalised) or "")
