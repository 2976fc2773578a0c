"""Changes in any order and in any batches make the versions that a naive model makes of all of them in order."""

from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from tidelog.spark.pipeline.lake.history import History, keys_of

COLUMNS = pa.schema(
    [
        ("id", pa.int64()),
        ("name", pa.string()),
        ("score", pa.float64()),
        ("valid_from", pa.int64()),
        ("valid_to", pa.int64()),
        ("deleted", pa.bool_()),
    ]
)
CHANGES = pa.schema(
    [
        ("id", pa.int64()),
        ("name", pa.string()),
        ("score", pa.float64()),
        ("lsn", pa.int64()),
        ("_deleted", pa.bool_()),
        ("_truncates", pa.bool_()),
    ]
)


@st.composite
def histories(draw):
    """Changes as `(id, name, score, lsn, deleted, truncates)`, each lsn once, and the batches in which they come."""
    kinds = draw(st.lists(st.sampled_from("uuuuddt"), max_size=14))
    changes = []
    for lsn, kind in enumerate(kinds):
        key = None if kind == "t" else draw(st.integers(1, 3))
        name = draw(st.sampled_from("ab")) if kind == "u" else None
        score = draw(st.sampled_from([0.5, float("nan")])) if kind == "u" else None
        changes.append((key, name, score, lsn, kind == "d", kind == "t"))
    shuffled = draw(st.permutations(changes))
    repeated = [*shuffled, *draw(st.lists(st.sampled_from(changes), max_size=4))] if changes else []
    cuts = sorted(draw(st.lists(st.integers(0, len(repeated)), max_size=4)))
    starts = [0, *cuts]
    return changes, [repeated[start:end] for start, end in zip(starts, [*cuts, len(repeated)], strict=True)]


def model(changes, tracked):
    """The versions of each key, one change after the other."""
    versions = []
    alive: dict[Any, Any] = {}

    def close(key, at):
        version = alive.pop(key, None)
        if version is not None:
            versions.append((key, *version[:2], version[2], at))

    for key, name, score, lsn, deleted, truncates in sorted(changes, key=lambda change: change[3]):
        if truncates:
            for each in list(alive):
                close(each, lsn)
        elif deleted:
            close(key, lsn)
        else:
            version = alive.get(key)
            new = (name, repr(score), lsn)
            if version is not None and all(version[place] == new[place] for place in tracked):
                alive[key] = (*new[:2], version[2])
            else:
                close(key, lsn)
                alive[key] = new
    for key in list(alive):
        close(key, None)
    return sorted(versions, key=repr)


def merged(table, batch, rule):
    """What a table does with a batch: only rows of its keys and truncations are looked at."""
    columns: list[Any] = list(zip(*batch, strict=True)) or [[]] * len(CHANGES)
    arrays = [pa.array(list(each), kind) for each, kind in zip(columns, CHANGES.types, strict=True)]
    incoming = rule.as_rows(pa.table(arrays, schema=CHANGES), COLUMNS)
    wanted = None if rule.truncates(incoming) else {None, *keys_of(incoming, rule.key)["id"].to_pylist()}
    new = rule.replacement(rows(each for each in table if wanted is None or each["id"] in wanted), incoming)
    gone = new.keys["id"].to_pylist()
    assert len(gone) == len(set(gone)), "a row of the table is replaced once"
    return [each for each in table if each["id"] not in gone] + new.rows.to_pylist()


def rows(found):
    return pa.Table.from_pylist(list(found), COLUMNS)


def versions(table):
    valid = (row for row in table if row["valid_from"] != row["valid_to"])
    shown = ((row["id"], row["name"], repr(row["score"]), row["valid_from"], row["valid_to"]) for row in valid)
    return sorted(shown, key=repr)


@given(histories(), st.sampled_from([(), ("name",), ("name", "score")]))
def test_the_versions_are_those_of_the_changes_in_order(history, track):
    changes, batches = history
    rule = History(("id",), "lsn", track=track)
    table: list[Any] = []
    for batch in batches:
        table = merged(table, batch, rule)
        again = merged(table, batch, rule)
        assert sorted(map(repr, again)) == sorted(map(repr, table)), "a batch that comes again changes nothing"
    tracked = (0,) if track == ("name",) else (0, 1)
    assert versions(table) == model(changes, tracked)
    assert not any(row["deleted"] for row in table if row["valid_from"] != row["valid_to"])


@given(histories())
def test_a_table_depends_on_the_changes_and_not_on_their_batches(history):
    changes, batches = history
    rule = History(("id",), "lsn", track=("name",))
    apart: list[Any] = []
    together = merged([], changes, rule)
    for batch in batches:
        apart = merged(apart, batch, rule)
    assert versions(apart) == versions(together)


def test_a_change_that_alters_nothing_replaces_no_row():
    rule = History(("id",), "lsn")
    table = merged([], [(1, "a", 0.5, 5, False, False), (1, None, None, 9, True, False)], rule)
    assert merged(table, [(1, "a", 0.5, 5, False, False)], rule) == table
