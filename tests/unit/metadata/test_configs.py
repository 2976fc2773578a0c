import pytest

from tidelog.config.errors import ConfigError
from tidelog.metadata.changes import EXPIRATION_MS, ChangeListener
from tidelog.metadata.configs import (
    CONFIG_CHANGES,
    Alteration,
    AlterOperation,
    ConfigEntity,
    alter_overrides,
    apply_alterations,
    read_overrides,
    replace_overrides,
)
from tidelog.metadata.registration import prepare_tree
from tidelog.metadata.store import WatchEvent
from tidelog.testing.memory_store import MemoryStore, MemoryTree
from tidelog.timing import ManualClock
from tidelog.wire.errors import ApiError, ErrorCode

ORDERS = ConfigEntity("topics", "orders")
SET, DELETE, APPEND, SUBTRACT = AlterOperation


def list_value(name: str) -> str | None:
    return {"cleanup.policy": "delete", "empty.list": ""}.get(name)


def anything(overrides: object) -> None:
    pass


@pytest.fixture
def store() -> MemoryStore:
    store = MemoryStore()
    prepare_tree(store)
    return store


def test_an_entity_without_a_node_has_no_overrides(store: MemoryStore) -> None:
    assert read_overrides(store, ORDERS) == {}


def test_replacing_drops_what_is_not_named(store: MemoryStore) -> None:
    replace_overrides(store, ORDERS, {"a": "1", "b": "2"}, anything)
    assert replace_overrides(store, ORDERS, {"b": "3"}, anything) == {"b": "3"}
    assert read_overrides(store, ORDERS) == {"b": "3"}


def test_altering_leaves_the_others_alone(store: MemoryStore) -> None:
    replace_overrides(store, ORDERS, {"a": "1", "b": "2", "c": "3"}, anything)
    alterations = [Alteration(SET, "a", "9"), Alteration(DELETE, "b", None), Alteration(SET, "d", "4")]
    assert alter_overrides(store, ORDERS, alterations, list_value, anything) == {"a": "9", "c": "3", "d": "4"}
    assert read_overrides(store, ORDERS) == {"a": "9", "c": "3", "d": "4"}


def test_each_change_leaves_a_numbered_notice_with_it(store: MemoryStore) -> None:
    replace_overrides(store, ORDERS, {"a": "1"}, anything)
    replace_overrides(store, ConfigEntity("brokers", "<default>"), {"a": "1"}, anything)
    assert store.children("/config/changes") == ["config_change_0000000000", "config_change_0000000001"]
    notice, stat = store.get("/config/changes/config_change_0000000001")
    assert notice == b'{"version":2,"entity_path":"brokers/<default>"}'
    assert stat.czxid == store.get("/config/brokers/<default>")[1].czxid, "one transaction"


def test_what_the_validator_refuses_is_not_written(store: MemoryStore) -> None:
    def refuse(overrides: object) -> None:
        raise ConfigError("Invalid value x for configuration a", setting="a")

    with pytest.raises(ConfigError):
        replace_overrides(store, ORDERS, {"a": "x"}, refuse)
    assert store.exists(ORDERS.path) is None
    assert store.children("/config/changes") == []


def test_the_validator_sees_all_overrides_together(store: MemoryStore) -> None:
    replace_overrides(store, ORDERS, {"a": "1"}, anything)
    seen: list[object] = []
    alter_overrides(store, ORDERS, [Alteration(SET, "b", "2")], list_value, seen.append)
    assert seen == [{"a": "1", "b": "2"}]


def test_validating_alone_writes_nothing(store: MemoryStore) -> None:
    assert replace_overrides(store, ORDERS, {"a": "1"}, anything, validate_only=True) == {"a": "1"}
    alter_overrides(store, ORDERS, [Alteration(SET, "a", "1")], list_value, anything, validate_only=True)
    assert store.exists(ORDERS.path) is None
    assert store.children("/config/changes") == []


@pytest.mark.parametrize(
    ("before", "alteration", "after"),
    [
        ({}, Alteration(APPEND, "cleanup.policy", "compact"), "delete,compact"),
        ({"cleanup.policy": "compact"}, Alteration(APPEND, "cleanup.policy", "compact"), "compact"),
        ({"cleanup.policy": "compact"}, Alteration(APPEND, "cleanup.policy", " delete , compact"), "compact,delete"),
        ({"cleanup.policy": "compact,delete"}, Alteration(SUBTRACT, "cleanup.policy", "delete"), "compact"),
        ({}, Alteration(SUBTRACT, "cleanup.policy", "compact"), "delete"),
        ({}, Alteration(SUBTRACT, "cleanup.policy", "delete"), ""),
        ({}, Alteration(APPEND, "empty.list", "x,y"), "x,y"),
    ],
)
def test_lists_are_appended_to_and_subtracted_from(before: dict[str, str], alteration: Alteration, after: str) -> None:
    assert apply_alterations(before, [alteration], list_value) == {alteration.name: after}


@pytest.mark.parametrize(
    ("alterations", "code", "message"),
    [
        (
            [Alteration(SET, "a", "1"), Alteration(DELETE, "a", None)],
            ErrorCode.INVALID_REQUEST,
            "Error due to duplicate config keys : a",
        ),
        ([Alteration(SET, "a", None)], ErrorCode.INVALID_REQUEST, "Null value not supported for : a"),
        ([Alteration(APPEND, "empty.list", None)], ErrorCode.INVALID_REQUEST, "Null value not supported"),
        ([Alteration(7, "a", "1")], ErrorCode.INVALID_REQUEST, "Unknown operation type 7"),
        (
            [Alteration(APPEND, "retention.ms", "1")],
            ErrorCode.INVALID_CONFIG,
            "Config value append is not allowed for config key: retention.ms",
        ),
        (
            [Alteration(SUBTRACT, "retention.ms", "1")],
            ErrorCode.INVALID_CONFIG,
            "Config value subtract is not allowed for config key: retention.ms",
        ),
    ],
)
def test_alterations_that_make_no_sense_are_refused(
    alterations: list[Alteration], code: ErrorCode, message: str
) -> None:
    with pytest.raises(ApiError, match=message) as caught:
        apply_alterations({}, alterations, list_value)
    assert caught.value.code is code


def test_two_brokers_that_change_one_entity_at_once_lose_neither_change() -> None:
    tree = MemoryTree()
    rival = tree.connect()
    prepare_tree(rival)

    class Racing(MemoryStore):
        raced = False

        def multi(self, operations):  # type: ignore[no-untyped-def]
            if not self.raced:
                self.raced = True
                alter_overrides(rival, ORDERS, [Alteration(SET, "theirs", "1")], list_value, anything)
            return super().multi(operations)

    ours = alter_overrides(Racing(tree), ORDERS, [Alteration(SET, "ours", "2")], list_value, anything)
    assert ours == read_overrides(rival, ORDERS) == {"theirs": "1", "ours": "2"}


def test_every_broker_finds_every_change_in_order() -> None:
    tree = MemoryTree()
    one, other = tree.connect(), tree.connect()
    prepare_tree(one)
    replace_overrides(one, ConfigEntity("topics", "before"), {}, anything)
    events: list[WatchEvent] = []
    listener = ChangeListener(CONFIG_CHANGES, events.append, lambda: 0)
    assert listener.take(other) == ["topics/before"], "what came before the first call is taken, too"
    assert not events
    replace_overrides(one, ORDERS, {"a": "1"}, anything)
    assert len(events) == 1
    replace_overrides(other, ConfigEntity("brokers", "1"), {"a": "1"}, anything)
    assert listener.take(other) == ["topics/orders", "brokers/1"]
    assert listener.take(other) == []
    replace_overrides(one, ORDERS, {"a": "2"}, anything)
    assert len(events) == 2, "each call sets the watch again"


def test_a_notice_that_cannot_be_read_does_not_hide_the_next(
    store: MemoryStore, caplog: pytest.LogCaptureFixture
) -> None:
    listener = ChangeListener(CONFIG_CHANGES, lambda _event: None, lambda: 0)
    store.create("/config/changes/config_change_", b"rubbish", sequential=True)
    store.create("/config/changes/something-else")
    replace_overrides(store, ORDERS, {}, anything)
    assert listener.take(store) == ["topics/orders"]
    assert caplog.text.count("announces a change that cannot be read") == 1


def test_old_notices_are_removed() -> None:
    clock = ManualClock()
    store = MemoryTree(clock.wall_ms).connect()
    prepare_tree(store)
    listener = ChangeListener(CONFIG_CHANGES, lambda _event: None, clock.wall_ms)
    replace_overrides(store, ORDERS, {}, anything)
    clock.advance(EXPIRATION_MS + 1)
    replace_overrides(store, ConfigEntity("topics", "next"), {}, anything)
    assert listener.take(store) == ["topics/orders", "topics/next"]
    assert store.children("/config/changes") == ["config_change_0000000001"]
