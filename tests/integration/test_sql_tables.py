"""Tables of PostgreSQL and SQLite as sinks: each batch once, whatever happens between two statements. No JVM."""

import json
import os
import random
import sqlite3
import subprocess
import sys
from collections import Counter
from contextlib import closing
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DateType,
    DecimalType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from tests.integration.postgres_support import PostgresServer
from tests.unit.spark.pipeline.lake.rows import KINDS, Rows
from tests.unit.spark.pipeline.lake.test_changes import (
    CHANGES,
    history,
    last_states,
    parts,
    truncate,
    update,
    versions,
)
from tidelog.spark.pipeline import merge_changes, sql_table
from tidelog.spark.pipeline.checks.lake import lake_problems
from tidelog.spark.pipeline.definition.pipeline import PipelineError
from tidelog.spark.pipeline.lake import tables
from tidelog.spark.pipeline.lake.batches import Batch, Committed
from tidelog.spark.pipeline.lake.changes import KeyedChanges
from tidelog.spark.pipeline.lake.history import History
from tidelog.spark.pipeline.lake.sql import Transaction
from tidelog.spark.pipeline.lake.sql_dialects import dialect_of

ORDERS = "id long, day string"
numbers = iter(range(1000))


@pytest.fixture(scope="module")
def postgres():
    with PostgresServer() as server:
        yield server.url


@pytest.fixture(params=["postgresql", "sqlite"])
def url(request, tmp_path):
    return request.getfixturevalue("postgres") if request.param == "postgresql" else f"sqlite:///{tmp_path / 'shop.db'}"


@pytest.fixture
def name():
    """A name that has to be quoted, and that no other test has."""
    return f'Order %s "{next(numbers)}"?'


def open_target(described: Any) -> Any:
    return tables.open_target(described)


def orders(ids: Any, day: str | None = "2026-01-01") -> Any:
    return Rows([(each, day) for each in ids], ORDERS)


def query(url: str, text: str) -> list[Any]:
    with closing(dialect_of(url).connect(url)) as connection:
        cursor = connection.cursor()
        cursor.execute(text)
        return cursor.fetchall()


def rows_of(url: str, name: str, columns: str = "*") -> list[Any]:
    return query(url, f"SELECT {columns} FROM {dialect_of(url).quoted(name)}")


def changes_of(batch: Any) -> Any:
    """Spark hands over the last change of each key and the last truncation."""
    return list({(change[4], change[0]): change for change in batch}.values())


def test_batches_add_up_and_one_that_is_there_is_skipped(url, name):
    table = open_target(sql_table(name, url=url))
    assert table.append(orders([1, 2]), Batch(f"q {name}", 0))
    assert table.append(orders([3], None), Batch(f"q {name}", 1, "a" * 15))
    assert not table.append(orders([3], None), Batch(f"q {name}", 1, "a" * 15))
    assert table.append(orders([]), Batch(f"q {name}", 2))
    assert Counter(rows_of(url, name)) == Counter([(1, "2026-01-01"), (2, "2026-01-01"), (3, None)])
    assert table.committed(f"q {name}") == Committed(2)
    assert table.committed("another") is None
    with pytest.raises(PipelineError, match="restored or copied"):
        table.append(orders([4]), Batch(f"q {name}", 1))


def test_rows_with_a_key_are_inserted_or_updated(url, name):
    table = open_target(sql_table(name, url=url, key="id"))
    assert table.rows() == []
    table.append(orders([1, 2], "a"), Batch(f"q {name}", 0))
    assert table.rows() == [{"id": 1, "day": "a"}, {"id": 2, "day": "a"}]
    table.append(orders([2, 3], "b"), Batch(f"q {name}", 1))
    assert sorted(rows_of(url, name)) == [(1, "a"), (2, "b"), (3, "b")]
    with pytest.raises(PipelineError, match="several rows of one key"):
        table.append(orders([4, 4]), Batch(f"q {name}", 2))
    with pytest.raises(PipelineError, match="no value in the key 'id'"):
        table.append(orders([None]), Batch(f"q {name}", 2))
    with pytest.raises(PipelineError, match="key has 'idd', but the rows have id, day"):
        open_target(sql_table(name, url=url, key="idd")).append(orders([4]), Batch(f"q {name}", 2))
    assert len(rows_of(url, name)) == 3


@pytest.mark.parametrize("keep_deleted", [None, "gone"])
def test_a_random_history_ends_in_the_state_of_a_plain_model(url, name, keep_deleted):
    table, rule = open_target(sql_table(name, url=url)), KeyedChanges(("id",), "lsn", keep_deleted)
    schema = CHANGES.replace("_deleted", keep_deleted or "_deleted")
    seen: list[Any] = []
    for number, batch in enumerate(parts(history(7, 60), 6)):
        seen += batch
        for _ in range(2):
            table.merge(Rows(changes_of(batch), schema), Batch(f"q {name}", number), rule)
        found = rows_of(url, name, f"id, name, lsn, {keep_deleted or 'NULL'}")
        alive = [row for row in found if not row[3]]
        assert {row[0]: row[1:3] for row in alive} == last_states(seen)
        assert len(alive) == len(last_states(seen)), "each key once"


def test_late_changes_replace_no_newer_ones(url, name):
    table, rule = open_target(sql_table(name, url=url)), KeyedChanges(("id",), "lsn")
    table.merge(Rows([update(1, "new", 10)], CHANGES), Batch(f"q {name}", 0), rule)
    table.merge(Rows([update(1, "late", 5)], CHANGES), Batch(f"q {name}", 1), rule)
    table.merge(Rows([(1, None, 4, True, False)], CHANGES), Batch(f"q {name}", 2), rule)
    assert rows_of(url, name, "id, name") == [(1, "new")]


def test_a_random_history_out_of_order_has_the_versions_of_a_plain_model(url, name):
    table, rule = open_target(sql_table(name, url=url)), History(("id",), "lsn")
    changes = history(3, 60)
    shuffled = random.Random(3).sample(changes, len(changes))
    seen: list[Any] = []
    for number, batch in enumerate(parts(shuffled, 6)):
        seen += batch
        for _ in range(2):
            table.keep(Rows(batch, CHANGES), Batch(f"q {name}", number), rule)
        found = rows_of(url, name, "id, name, valid_from, valid_to")
        valid = Counter(tuple(row) for row in found if row[2] != row[3])
        assert valid == versions(sorted(seen, key=lambda change: change[2]))


TYPES = {
    "price": DecimalType(10, 2),
    "day": DateType(),
    "at": TimestampType(),
    "raw": BinaryType(),
    "tags": ArrayType(StringType()),
    "by": MapType(StringType(), LongType()),
    "when": StructType([StructField("at", DateType())]),
}
VALUES = (
    Decimal("12.50"),
    date(2026, 1, 2),
    datetime(2026, 1, 2, 3, 4, 5, 6, UTC),
    b"\x00\xff",
    ["a", None],
    [("x", 1)],
    {"at": date(2026, 1, 3)},
)


def test_values_of_every_type_come_back(url, name, monkeypatch):
    """Those of a history do, because a late change writes them again."""
    for kind, type_of in TYPES.items():
        monkeypatch.setitem(KINDS, kind, type_of)
    schema = ", ".join(f"c_{kind} {kind}" for kind in TYPES)
    schema = f"id long, ok boolean, {schema}, lsn long, _deleted boolean required"
    table, rule = open_target(sql_table(name, url=url)), History(("id",), "lsn")
    table.keep(Rows([(1, True, *VALUES, 5, False)], schema), Batch(f"q {name}", 0), rule)
    nothing = (None,) * len(TYPES)
    table.keep(Rows([(1, False, *nothing, 3, False)], schema), Batch(f"q {name}", 1), rule)
    table.keep(Rows([(1, True, *VALUES, 9, False)], schema), Batch(f"q {name}", 2), rule)
    found = rows_of(url, name, "valid_from, valid_to, ok")
    assert Counter(tuple(row) for row in found) == Counter([(3, 5, False), (5, None, True), (9, 9, True)])
    if url.startswith("postgresql"):
        kinds = ", ".join(f"c_{kind}" for kind in TYPES)
        (row,) = query(url, f"SELECT {kinds} FROM {dialect_of(url).quoted(name)} WHERE valid_from = 5")
        assert row[:4] == VALUES[:4]
        assert row[4:] == (["a", None], [["x", 1]], {"at": "2026-01-03"})


def test_columns_are_checked_and_added_if_asked_for(url, name):
    open_target(sql_table(name, url=url)).append(orders([1]), Batch(f"q {name}", 0))
    wider = Rows([(2, "d", 0.5)], "id long, day string, score double")
    with pytest.raises(PipelineError, match=r"no column 'score'.*merge_schema=True"):
        open_target(sql_table(name, url=url)).append(wider, Batch(f"q {name}", 1))
    assert open_target(sql_table(name, url=url, merge_schema=True)).append(wider, Batch(f"q {name}", 1))
    assert open_target(sql_table(name, url=url)).append(orders([3]), Batch(f"q {name}", 2))
    assert sorted(rows_of(url, name, "id, score"), key=str) == [(1, None), (2, 0.5), (3, None)]
    changes = Rows([update(1, "a", 1)], CHANGES)
    with pytest.raises(PipelineError, match="has column 'day', but the changes do not"):
        open_target(sql_table(name, url=url, merge_schema=True)).keep(changes, Batch("h", 0), History(("id",), "lsn"))


def test_two_drivers_with_one_batch_write_it_once(url, name):
    """One was taken for dead: it waits for the other, and finds the batch there."""
    open_target(sql_table(name, url=url)).append(orders([0]), Batch(f"q {name}", 0))
    done: list[bool] = []

    def drive() -> None:
        done.append(open_target(sql_table(name, url=url)).append(orders(range(1, 200)), Batch(f"q {name}", 1)))

    threads = [Thread(target=drive) for _ in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join(60)
    assert sorted(done) == [False, False, False, True]
    assert len(rows_of(url, name)) == 200


def test_queries_that_begin_at_the_same_time_create_the_tables_once(url):
    names = [f"begin_{next(numbers)}" for _ in range(4)]
    errors: list[BaseException] = []

    def drive(name: str) -> None:
        try:
            open_target(sql_table(name, url=url)).append(orders([1]), Batch(name, 0))
        except BaseException as error:
            errors.append(error)

    threads = [Thread(target=drive, args=(name,)) for name in names]
    for each in threads:
        each.start()
    for each in threads:
        each.join(60)
    assert errors == []
    assert [rows_of(url, name, "id") for name in names] == [[(1,)]] * 4


DRIVER = """
import json, os, signal, sys
# Once for all children.
import pandas, psycopg, pyarrow.compute, pyarrow.dataset, pyspark.sql.pandas.types
from tests.integration.test_sql_tables import drive
from tidelog.spark.pipeline.lake.sql import Transaction

url, name = json.loads(sys.argv[1])
count = 0


def dying_at(die_at):
    for method in ("run", "run_each", "commit"):

        def dying(self, *arguments, _plain=getattr(Transaction, method)):
            global count
            if count == die_at:
                os.kill(os.getpid(), signal.SIGKILL)
            count += 1
            return _plain(self, *arguments)

        setattr(Transaction, method, dying)


for die_at in range(1000):
    child = os.fork()
    if not child:
        dying_at(die_at)
        drive(url, name)
        os._exit(0)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if status != -signal.SIGKILL:
        sys.exit(status or (0 if die_at > 20 else 99))
"""


def drive(url: str, name: str) -> None:
    """What a driver does after a start: the batches from the last on, which Spark has not noted as done."""
    merged, kept, added = (open_target(sql_table(f"{name} {kind}", url=url)) for kind in ("merged", "kept", "added"))
    for number, batch in enumerate(parts(history(11, 12), 2)):
        last = merged.committed("merged")
        if last is None or last.number <= number:
            merged.merge(Rows(changes_of(batch), CHANGES), Batch("merged", number), KeyedChanges(("id",), "lsn"))
        last = kept.committed("kept")
        if last is None or last.number <= number:
            kept.keep(Rows(batch, CHANGES), Batch("kept", number), History(("id",), "lsn"))
        last = added.committed("added")
        if last is None or last.number <= number:
            added.append(orders(range(number * 10, number * 10 + 10)), Batch("added", number))


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize("kind", ["postgresql", "sqlite"])
def test_a_driver_killed_between_any_two_statements_writes_every_batch_once(kind, tmp_path):
    """Killed before the first statement, the second, and so on, each time started again, until it gets through."""
    if kind == "sqlite":
        _kill_everywhere(f"sqlite:///{tmp_path / 'shop.db'}")
        return
    with PostgresServer() as server:
        _kill_everywhere(server.url)


def _kill_everywhere(url: str) -> None:
    root = Path(__file__).parents[2]
    asked = json.dumps([url, "killed"])
    environment = {**os.environ, "PYTHONPATH": str(root)}
    done = subprocess.run([sys.executable, "-c", DRIVER, asked], cwd=root, env=environment, capture_output=True)
    assert done.returncode == 0, done.stderr.decode()[-2000:]
    changes = history(11, 12)
    assert {row[0]: row[1:] for row in rows_of(url, "killed merged", "id, name, lsn")} == last_states(changes)
    valid = [tuple(row) for row in rows_of(url, "killed kept", "id, name, valid_from, valid_to") if row[2] != row[3]]
    assert Counter(valid) == versions(changes)
    assert Counter(row[0] for row in rows_of(url, "killed added", "id")) == Counter(range(20))


def test_an_error_in_the_middle_leaves_nothing(url, name, monkeypatch):
    table = open_target(sql_table(name, url=url))
    table.append(orders([1]), Batch(f"q {name}", 0))
    with monkeypatch.context() as crashing:
        crashing.setattr(Transaction, "commit", _die)
        with pytest.raises(OSError, match="went down"):
            table.append(orders([2]), Batch(f"q {name}", 1))
    assert rows_of(url, name, "id") == [(1,)]
    assert table.committed(f"q {name}") == Committed(0)
    assert table.append(orders([2]), Batch(f"q {name}", 1))


def _die(*_arguments: object) -> None:
    raise OSError("the machine went down")


def test_an_existing_table_keeps_its_own_columns_and_types(url):
    name = f"existing_{next(numbers)}"
    with closing(dialect_of(url).connect(url)) as connection:
        connection.cursor().execute(f"CREATE TABLE {name} (id INTEGER PRIMARY KEY, day TEXT, seen INTEGER DEFAULT 7)")
        connection.commit()
    open_target(sql_table(name, url=url, key="id")).append(orders([1], "a"), Batch(name, 0))
    assert rows_of(url, name) == [(1, "a", 7)]


@pytest.mark.parametrize(
    ("sink", "problem"),
    [
        (sql_table("orders", url="mysql://host/shop"), "begins with one of postgresql://…"),
        (sql_table("shop.orders", url="sqlite:////shop.db"), "the name of a table"),
        (sql_table("orders", url="sqlite:///"), "is a file"),
        (
            merge_changes(sql_table("o", url="sqlite:////o", key="id"), key="id", order_by="n", operation="op"),
            "leave it out of sql_table",
        ),
    ],
)
def test_mistakes_are_found_before_the_start(sink, problem):
    assert [text for text in lake_problems(sink) if problem in text]
    assert not [*lake_problems(sql_table("shop.orders", url="postgresql://me:secret@host/shop", key="id"))]


def test_a_password_is_in_no_message():
    described = sql_table("orders", url="postgresql://me:secret@host/shop")
    assert "secret" not in f"{described} {described!r}"


def test_a_truncation_of_a_table_that_is_missing_creates_it(url, name):
    table = open_target(sql_table(name, url=url))
    table.merge(Rows([truncate(1)], CHANGES), Batch(f"q {name}", 0), KeyedChanges(("id",), "lsn"))
    assert rows_of(url, name) == []


def test_sqlite_is_new_enough():
    assert sqlite3.sqlite_version_info >= (3, 24), "INSERT … ON CONFLICT"
