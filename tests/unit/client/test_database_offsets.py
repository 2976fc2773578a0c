"""Offsets in the application's database, on SQLite; `tests/integration` has PostgreSQL and real consumers."""

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog.client import (
    ClientConfigError,
    ConsumerRecord,
    DatabaseConnection,
    DatabaseOffsets,
    OffsetsFenced,
    TimestampType,
    TopicPartition,
)

WHERE = TopicPartition("payments", 1)
Connect = Callable[[], sqlite3.Connection]


def record(offset: int, partition: int = 1) -> ConsumerRecord[Any, Any]:
    return ConsumerRecord("payments", partition, offset, 0, None, b"", (), TimestampType.CREATE_TIME, 0)


class Seeks(dict[TopicPartition, int]):
    def seek(self, partition: TopicPartition, offset: int) -> None:
        self[partition] = offset


@pytest.fixture
def connect(tmp_path: Path) -> Connect:
    return lambda: sqlite3.connect(tmp_path / "shop.db")


@pytest.fixture
def connection(connect: Connect) -> Iterator[sqlite3.Connection]:
    with closing(connect()) as opened:
        opened.execute("CREATE TABLE applied (number INTEGER)")
        yield opened


def make(connect: Connect, group: str = "billing", **options: Any) -> DatabaseOffsets:
    offsets = DatabaseOffsets(connect, group, **options)
    offsets.create_table()
    return offsets


def test_a_saved_offset_is_sought_by_the_next_owner(connect: Connect, connection: sqlite3.Connection) -> None:
    first, seeks = make(connect), Seeks()
    first.listener(seeks).on_assigned([WHERE, TopicPartition("payments", 0)])
    assert seeks == {}, "nothing is saved"
    with connection:
        first.save(connection, record(4), record(7, partition=0), record(9))
    make(connect).listener(seeks).on_assigned([WHERE])
    make(connect, "shipping").listener(seeks).on_assigned([WHERE])
    assert seeks == {WHERE: 10}
    assert make(connect).claim([TopicPartition("payments", 0)]) == {TopicPartition("payments", 0): 8}


def test_an_owner_that_was_replaced_can_save_nothing(connect: Connect, connection: sqlite3.Connection) -> None:
    old, new = make(connect), make(connect)
    old.claim([WHERE])
    new.claim([WHERE])
    connection.execute("INSERT INTO applied VALUES (3)")
    with pytest.raises(OffsetsFenced, match="offset 3 of payments-1"), connection:
        old.save(connection, record(3))
    assert connection.execute("SELECT * FROM applied").fetchall() == [], "what was written with it is undone"
    with connection:
        new.save(connection, record(3))
    with pytest.raises(OffsetsFenced):
        new.save(connection, record(3))


def test_a_revoked_partition_is_saved_no_more(connect: Connect, connection: sqlite3.Connection) -> None:
    offsets = make(connect)
    listener = offsets.listener(Seeks())
    with pytest.raises(OffsetsFenced, match="not claimed"):
        offsets.save(connection, record(0))
    listener.on_assigned([WHERE])
    listener.on_revoked([WHERE])
    with pytest.raises(OffsetsFenced, match="not claimed"):
        offsets.save(connection, record(0))
    listener.on_assigned([WHERE])
    listener.on_lost([WHERE])
    with pytest.raises(OffsetsFenced, match="not claimed") as raised:
        offsets.save(connection, record(0))
    assert raised.value.fatal


def test_tables_and_drivers_that_cannot_be_used_are_refused(connect: Connect) -> None:
    class Unknown:
        def cursor(self) -> Any:
            return self

        commit = close = cursor

    for table in ("", "a b", "x;--", "a.b.c", "1a"):
        with pytest.raises(ClientConfigError, match="table"):
            DatabaseOffsets(connect, "billing", table=table)
    with pytest.raises(ClientConfigError, match="paramstyle=None of Unknown"):
        DatabaseOffsets(Unknown, "billing").create_table()
    with pytest.raises(ClientConfigError, match="paramstyle='named'"):
        DatabaseOffsets(connect, "billing", paramstyle="named").create_table()
    make(connect, table="main.offsets_of_billing").claim([WHERE])


ACTIONS = st.lists(
    st.tuples(st.integers(0, 2), st.sampled_from(["claim", "save", "crash"]), st.integers(1, 3)), max_size=30
)


@given(ACTIONS)
def test_each_record_takes_effect_once_and_in_order(actions: list[tuple[int, str, int]]) -> None:
    """Consumers that claim, save and are killed in any order; each reads on where its claim said."""
    name = "file:offsets?mode=memory&cache=shared"

    def open_database() -> DatabaseConnection:
        return sqlite3.connect(name, uri=True)

    with closing(sqlite3.connect(name, uri=True)) as connection:
        connection.execute("CREATE TABLE applied (number INTEGER)")
        consumers = [DatabaseOffsets(open_database, "billing") for _ in range(3)]
        consumers[0].create_table()
        positions = [0, 0, 0]
        owner: int | None = None
        for who, action, count in actions:
            offsets = consumers[who]
            if action == "claim":
                positions[who] = offsets.claim([WHERE]).get(WHERE, 0)
                owner = who
                continue
            rows = [record(positions[who] + each) for each in range(count)]
            connection.executemany("INSERT INTO applied VALUES (?)", [(each.offset,) for each in rows])
            if owner != who:
                with pytest.raises(OffsetsFenced), connection:
                    offsets.save(connection, *rows)
            elif action == "crash":
                offsets.save(connection, *rows)
                connection.rollback()
            else:
                offsets.save(connection, *rows)
                connection.commit()
                positions[who] += count
        found = [number for (number,) in connection.execute("SELECT number FROM applied ORDER BY rowid")]
        assert found == list(range(len(found)))
