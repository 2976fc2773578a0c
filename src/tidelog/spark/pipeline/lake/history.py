"""Tables that keep every version of a row (slowly changing dimensions of type 2). Pure: Arrow tables in and out.

A version is valid from the order of the change that made it up to that of the next change of its key: `valid_to` is
null as long as there is none. The table is a function of the set of changes that it was given, in whatever order and in
whatever batches they came. So it must also remember the changes that made no version: deletions, truncations (whose key
is null), and changes that repeated what was there. Each is a row whose `valid_from` and `valid_to` are equal: it was
never valid, and neither "what is valid now" nor "what was valid at that time" finds it.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from tidelog.spark.pipeline.definition.pipeline import PipelineError
from tidelog.spark.pipeline.lake.changes import DELETED, TRUNCATES, check_keys, is_true
from tidelog.spark.pipeline.lake.evolution import fitted

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

Key = tuple[Any, ...]


class Replacement(NamedTuple):
    """All rows of these keys are replaced by `rows`, which has the truncations that are new, too."""

    keys: "pa.Table"
    rows: "pa.Table"


class _Stored(NamedTuple):
    """A row that the table has afterwards: the values of row number `row`, valid from and to."""

    row: int
    valid_from: Any
    valid_to: Any


@dataclass(frozen=True, slots=True)
class History:
    """How the versions of one key follow each other.

    A change that agrees with the version before it in the columns `track` (by default in all) opens no version; the
    version gets its values.
    """

    key: tuple[str, ...]
    order_by: str
    valid_from: str = "valid_from"
    valid_to: str = "valid_to"
    deleted: str = "deleted"
    track: tuple[str, ...] = ()

    def stored(self, changes: "StructType") -> "StructType":
        """The columns of the table for changes with these columns."""
        from pyspark.sql.types import BooleanType, StructField, StructType

        for name in (self.valid_from, self.valid_to, self.deleted):
            if name in changes.names:
                raise PipelineError(
                    f"the changes have a column {name!r}, which scd=2 makes: name another with valid_from, valid_to or "
                    "keep_deleted"
                )
        for name in self.track:
            if name not in changes.names:
                raise PipelineError(f"track has {name!r}, but the changes have {', '.join(changes.names)}")
        kind = changes[self.order_by].dataType
        left_out = (self.order_by, DELETED, TRUNCATES)
        kept = [field for field in changes.fields if field.name not in left_out]
        added = {self.valid_from: kind, self.valid_to: kind, self.deleted: BooleanType()}
        return StructType([*kept, *[StructField(name, each) for name, each in added.items()]])

    def as_rows(self, changes: "pa.Table", columns: "pa.Schema") -> "pa.Table":
        """Changes as rows of the table: each valid from and to its own order."""
        import pyarrow.compute as pc

        check_keys(changes, self.key, self.order_by)
        order, truncates = changes[self.order_by], is_true(changes, TRUNCATES)
        deleted = pc.or_(is_true(changes, DELETED), truncates)
        for name in self.key:
            place = changes.column_names.index(name)
            changes = changes.set_column(place, name, pc.if_else(truncates, None, changes[name]))
        others = (self.order_by, DELETED, TRUNCATES)
        changes = changes.drop_columns([each for each in others if each in changes.column_names])
        for name, values in ((self.valid_from, order), (self.valid_to, order), (self.deleted, deleted)):
            changes = changes.append_column(name, values)
        return fitted(changes, columns)

    def truncates(self, incoming: "pa.Table") -> bool:
        """Whether rows of every key are concerned."""
        return bool(incoming[self.key[0]].null_count)

    def replacement(self, there: "pa.Table", incoming: "pa.Table") -> Replacement:
        """What changes in a table that has the rows `there` of the keys of `incoming`, and all truncations.

        If `incoming` truncates, `there` is the whole table.
        """
        import pyarrow as pa

        rows = pa.concat_tables([there, incoming.cast(there.schema)])
        timelines = _Timelines(self, rows, there.num_rows)
        changed = [key for key in timelines.concerned() if timelines.is_changed(key)]
        stored = [row for key in changed for row in timelines.rows_of(key)]
        stored += timelines.new_truncations()
        gone = [indices[0] for key in changed if (indices := timelines.there.get(key))]
        put = rows.take(pa.array([each.row for each in stored], pa.int64()))
        for name, values in (
            (self.valid_from, [each.valid_from for each in stored]),
            (self.valid_to, [each.valid_to for each in stored]),
        ):
            place = rows.schema.get_field_index(name)
            put = put.set_column(place, rows.schema.field(place), pa.array(values, rows.schema.field(place).type))
        return Replacement(rows.select(list(self.key)).take(pa.array(gone, pa.int64())), put)


class _Timelines:
    """The changes of each key, as rows say them: a row of its own for each, or the version that it made."""

    def __init__(self, rule: History, rows: "pa.Table", there: int) -> None:
        self._starts = rows[rule.valid_from].to_pylist()
        self._ends = rows[rule.valid_to].to_pylist()
        self._deleted = rows[rule.deleted].to_pylist()
        names = [each for each in rows.column_names if each not in (rule.valid_from, rule.valid_to, rule.deleted)]
        tracked = rule.track or tuple(name for name in names if name not in rule.key)
        self._tracked = [rows[name].to_pylist() for name in tracked]
        self._has_untracked = len(set(names) - set(rule.key) - set(tracked)) > 0
        self._there = there
        self._keys: list[Key] = list(zip(*[rows[name].to_pylist() for name in rule.key], strict=True))
        truncation = (None,) * len(rule.key)
        self.there: dict[Key, list[int]] = {}
        """The rows that the table has of each key."""
        self._changes: dict[Key, dict[Any, int]] = {}
        for index in self._in_order():
            self._changes.setdefault(self._keys[index], {})[self._starts[index]] = index
        for index, key in enumerate(self._keys[:there]):
            self.there.setdefault(key, []).append(index)
        self._truncations = self._changes.pop(truncation, {})
        known = {self._starts[index] for index in self.there.pop(truncation, ())}
        self._new = [_Stored(index, at, at) for at, index in self._truncations.items() if at not in known]

    def _in_order(self) -> Iterator[int]:
        """Later ones replace earlier ones of the same order: a version tells less than a row of the change itself."""
        there = range(self._there)
        yield from (index for index in there if self._starts[index] != self._ends[index])
        yield from (index for index in there if self._starts[index] == self._ends[index])
        yield from range(self._there, len(self._keys))

    def concerned(self) -> list[Key]:
        """Keys whose rows may differ afterwards."""
        if self.new_truncations():
            return list(self._changes)
        return [key for key in dict.fromkeys(self._keys[self._there :]) if key in self._changes]

    def new_truncations(self) -> list[_Stored]:
        """Truncations that the table does not have."""
        return self._new

    def is_changed(self, key: Key) -> bool:
        """Whether a key has other rows afterwards."""
        before = {(index, self._starts[index], self._ends[index]) for index in self.there.get(key, ())}
        return before != {(each.row, each.valid_from, each.valid_to) for each in self.rows_of(key)}

    def rows_of(self, key: Key) -> list[_Stored]:
        """The versions of a key, and a row for each change that made none."""
        changes = self._changes[key]
        stored: list[_Stored] = []
        run: list[int] = []

        def close(end: Any) -> None:
            if not run:
                return
            stored.append(_Stored(run[-1], self._starts[run[0]], end))
            silent = run if self._has_untracked and len(run) > 1 else run[1:]
            stored.extend(_Stored(index, self._starts[index], self._starts[index]) for index in silent)
            run.clear()

        for at in sorted({*changes, *self._truncations}):
            index = changes.get(at)
            if index is None or self._deleted[index]:
                close(at)
                stored += [] if index is None else [_Stored(index, at, at)]
                continue
            if run and not self._agree(run[-1], index):
                close(at)
            run.append(index)
        close(None)
        return stored

    def _agree(self, one: int, other: int) -> bool:
        """By their texts: a NaN is equal to a NaN."""
        return all(repr(values[one]) == repr(values[other]) for values in self._tracked)


def keys_of(incoming: "pa.Table", names: Sequence[str]) -> "pa.Table":
    """The keys of changes, each once, without those of truncations."""
    import pyarrow.compute as pc

    keys = incoming.select(list(names))
    return keys.filter(pc.is_valid(keys[names[0]])).group_by(list(names)).aggregate([])
