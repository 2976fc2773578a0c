"""Changes merged into real Delta and Iceberg tables: random histories against a plain model, truncations, repeats."""

import random
from collections import Counter
from datetime import UTC, date, datetime
from typing import Any

import pytest

from tests.unit.spark.pipeline.lake.rows import KINDS, Rows
from tidelog.spark.pipeline import delta, iceberg, merge_changes
from tidelog.spark.pipeline.checks.lake import lake_problems
from tidelog.spark.pipeline.definition.pipeline import PipelineError
from tidelog.spark.pipeline.lake import tables
from tidelog.spark.pipeline.lake.batches import Batch
from tidelog.spark.pipeline.lake.changes import KeyedChanges
from tidelog.spark.pipeline.lake.delta import literal
from tidelog.spark.pipeline.lake.history import History

CHANGES = "id long, name string, lsn long, _deleted boolean required, _truncates boolean required"


def open_table(described) -> Any:
    return tables.open_table(described)


@pytest.fixture(params=["delta", "iceberg"])
def described(request, tmp_path):
    if request.param == "delta":
        return delta(tmp_path / "table", merge_schema=True)
    return iceberg("shop.customers", warehouse=tmp_path / "lake", merge_schema=True)


def update(key, name, lsn):
    return key, name, lsn, False, False


def delete(key, lsn):
    return key, None, lsn, True, False


def truncate(lsn):
    return None, None, lsn, False, True


def history(seed, count):
    """Changes of four keys, in order."""
    chance = random.Random(seed)
    kinds = chance.choices("udt", (12, 4, 1), k=count)
    made = {"u": lambda lsn: update(chance.randrange(4), chance.choice("abc"), lsn),
            "d": lambda lsn: delete(chance.randrange(4), lsn), "t": truncate}  # fmt: skip
    return [made[kind](lsn) for lsn, kind in enumerate(kinds)]


def last_states(changes):
    """The rows that are there after changes in order."""
    rows: dict[Any, Any] = {}
    for key, name, lsn, deleted, truncates in changes:
        if truncates:
            rows.clear()
        elif deleted:
            rows.pop(key, None)
        else:
            rows[key] = (name, lsn)
    return rows


def versions(changes):
    """`(key, name, valid from, valid to)` of changes in order."""
    closed: list[Any] = []
    alive: dict[Any, Any] = {}
    for key, name, lsn, deleted, truncates in changes:
        if not truncates and not deleted and alive.get(key, ("",))[0] == name:
            continue
        for each in list(alive) if truncates else [key] if key in alive else []:
            closed.append((each, *alive.pop(each), lsn))
        if not truncates and not deleted:
            alive[key] = (name, lsn)
    return Counter(closed + [(key, *version, None) for key, version in alive.items()])


def versions_of(table):
    return Counter(
        (row["id"], row["name"], row["valid_from"], row["valid_to"])
        for row in table.read().to_pylist()
        if row["valid_from"] != row["valid_to"]
    )


def parts(changes, count):
    size = -(-len(changes) // count)
    return [changes[start : start + size] for start in range(0, len(changes), size)]


@pytest.mark.parametrize("keep_deleted", [None, "gone"])
def test_a_random_history_ends_in_the_state_of_a_plain_model(described, keep_deleted):
    table, rule = open_table(described), KeyedChanges(("id",), "lsn", keep_deleted)
    schema = CHANGES.replace("_deleted", keep_deleted or "_deleted")
    seen = []
    for number, batch in enumerate(parts(history(7, 40), 4)):
        seen += batch
        # Spark hands over the last change of each key and the last truncation.
        last = {(truncates, key): (key, name, *rest, truncates) for key, name, *rest, truncates in batch}
        assert table.merge(Rows(list(last.values()), schema), Batch("q", number), rule)
        assert not table.merge(Rows(list(last.values()), schema), Batch("q", number), rule)
        rows = [row for row in table.read().to_pylist() if keep_deleted is None or not row[keep_deleted]]
        assert {row["id"]: (row["name"], row["lsn"]) for row in rows} == last_states(seen)
        assert len(rows) == len(last_states(seen)), "each key once"


def test_a_random_history_out_of_order_has_the_versions_of_a_plain_model(described):
    table, rule = open_table(described), History(("id",), "lsn")
    changes = history(3, 40)
    shuffled = random.Random(3).sample(changes, len(changes))
    seen = []
    for number, batch in enumerate(parts(shuffled, 4)):
        seen += batch
        assert table.keep(Rows(batch, CHANGES), Batch("q", number), rule)
        assert not table.keep(Rows(batch, CHANGES), Batch("q", number), rule), "a repeated batch is skipped"
        assert versions_of(table) == versions(sorted(seen, key=lambda change: change[2]))
    before = table.read().num_rows
    assert table.keep(Rows(shuffled[:9], CHANGES), Batch("a second query", 0), rule)
    assert table.read().num_rows == before, "changes that are there already change nothing"


def test_a_driver_that_was_overtaken_looks_at_the_rows_again(described, monkeypatch):
    """Another query has merged a change of the same key between its look at the table and its commit."""
    slow, other = open_table(described), open_table(described)
    rule = History(("id",), "lsn")
    slow.keep(Rows([update(1, "a", 1)], CHANGES), Batch("q", 0), rule)
    plan = History.replacement

    def overtaken(self, there, incoming):
        monkeypatch.setattr(History, "replacement", plan)
        assert other.keep(Rows([update(1, "b", 5)], CHANGES), Batch("other", 0), rule)
        return plan(self, there, incoming)

    monkeypatch.setattr(History, "replacement", overtaken)
    assert slow.keep(Rows([update(1, "c", 3)], CHANGES), Batch("q", 1), rule)
    assert versions_of(slow) == Counter([(1, "a", 1, 3), (1, "c", 3, 5), (1, "b", 5, None)])


def test_a_column_that_changes_get_later_is_added_to_all_versions(described):
    table, rule = open_table(described), History(("id",), "lsn")
    table.keep(Rows([update(1, "a", 1)], CHANGES), Batch("q", 0), rule)
    grown = "id long, name string, city string, lsn long, _deleted boolean required"
    table.keep(Rows([(1, "a", "Rome", 2, False)], grown), Batch("q", 1), rule)
    rows = {row["valid_from"]: (row["city"], row["valid_to"]) for row in table.read().to_pylist()}
    assert rows == {1: (None, 2), 2: ("Rome", None)}


def test_a_change_without_a_key_or_an_order_is_refused_and_a_truncation_has_no_key(described):
    table, rule = open_table(described), History(("id",), "lsn")
    for bad, name in (update(None, "a", 1), "id"), (update(1, "a", None), "lsn"), (truncate(None), "lsn"):
        with pytest.raises(PipelineError, match=f"no value in the column '{name}'"):
            table.keep(Rows([bad], CHANGES), Batch("q", 0), rule)
    assert table.keep(Rows([truncate(4), update(1, "a", 4)], CHANGES), Batch("q", 0), rule)
    assert versions_of(table) == Counter([(1, "a", 4, None)])


@pytest.mark.parametrize(
    ("kind", "value", "later"),
    [
        ("moment", datetime(2026, 1, 1, 12, 0, 0, 1, UTC), datetime(2026, 1, 1, 12, 0, 0, 2, UTC)),
        ("text", "it's", "on"),
        ("day", date(2026, 1, 1), date(2026, 1, 2)),
    ],
)
def test_orders_of_other_types_truncate_as_well(described, kind, value, later, monkeypatch):
    from pyspark.sql.types import DateType, StringType, TimestampType

    for name, type_of in (("moment", TimestampType()), ("text", StringType()), ("day", DateType())):
        monkeypatch.setitem(KINDS, name, type_of)
    table = open_table(described)
    schema = CHANGES.replace("lsn long", f"lsn {kind}")
    rule = KeyedChanges(("id",), "lsn")
    table.merge(Rows([update(1, "a", value), update(2, "b", later)], schema), Batch("q", 0), rule)
    table.merge(Rows([truncate(later)], schema), Batch("q", 1), rule)
    assert [row["id"] for row in table.read().to_pylist()] == [2]


def test_a_literal_has_no_way_out_of_its_quotes():
    assert literal("a' OR 'b'='b") == "'a'' OR ''b''=''b'"


def test_columns_that_history_makes_are_refused_in_changes():
    for columns, match in (("id long, valid_to long, lsn long", "valid_to"), ("id long, lsn long", "track has 'nme'")):
        with pytest.raises(PipelineError, match=match):
            History(("id",), "lsn", track=("nme",)).stored(Rows([], columns).schema)


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({"scd": 3}, "scd=3"),
        ({"track": "name"}, "track needs scd=2"),
        ({"scd": 2, "valid_from": "at", "valid_to": "at"}, "'at' twice"),
        ({"scd": 2, "valid_from": "id"}, "'id' is one that scd=2 makes"),
        ({"scd": 2, "track": ["lsn"]}, "track has 'lsn'"),
    ],
)
def test_mistakes_about_history_are_found_before_the_start(arguments, problem):
    sink = merge_changes(delta("/t"), key="id", order_by="lsn", operation="operation", **arguments)
    assert [text for text in lake_problems(sink) if problem in text]
    assert not [*lake_problems(merge_changes(delta("/t"), key="id", order_by="lsn", operation="o", scd=2))]
