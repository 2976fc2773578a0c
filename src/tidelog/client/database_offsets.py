"""Offsets in the application's own database, in the transaction of what the records lead to.

    offsets = DatabaseOffsets(lambda: psycopg.connect(DATABASE), group="billing")
    consumer.subscribe(["payments"], listener=offsets.listener(consumer))
    for record in consumer:
        with connection.transaction():
            offsets.save(connection, record)
            ...

Offset and effect are committed together or not at all, so each record takes effect once. A row for each partition holds
the next offset and an epoch, which every claim raises: a consumer that was paused, and whose partitions have another
owner since, can neither save an offset nor, as its transaction is rolled back, anything else.

Works with connections of DB-API 2.0 to PostgreSQL and to SQLite from 3.35 on. Not for use by several threads.
"""

import re
import sys
from collections.abc import Callable, Iterable
from contextlib import closing
from typing import Any, Final, Protocol

from tidelog.client.aio.consumer.listeners import RebalanceListener
from tidelog.client.aio.consumer.types import ConsumerRecord
from tidelog.client.errors import ClientConfigError, ClientError
from tidelog.client.types import TopicPartition

TABLE: Final = "tidelog_offsets"
NEVER_SAVED: Final = -1

_PLACEHOLDERS: Final = {"qmark": "?", "format": "%s", "pyformat": "%s"}
_NAME: Final = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)?", re.ASCII)

_CREATE: Final = """CREATE TABLE IF NOT EXISTS {table} (
  group_id TEXT NOT NULL, topic TEXT NOT NULL, partition_number INTEGER NOT NULL,
  next_offset BIGINT NOT NULL, epoch BIGINT NOT NULL,
  PRIMARY KEY (group_id, topic, partition_number))"""
# One statement, so that no two claims get the same epoch, even where each statement is a transaction.
_CLAIM: Final = """INSERT INTO {table} AS stored (group_id, topic, partition_number, next_offset, epoch)
  VALUES (?, ?, ?, -1, 1) ON CONFLICT (group_id, topic, partition_number) DO UPDATE SET epoch = stored.epoch + 1
  RETURNING next_offset, epoch"""
_SAVE: Final = """UPDATE {table} SET next_offset = ?
  WHERE group_id = ? AND topic = ? AND partition_number = ? AND epoch = ? AND next_offset <= ?"""


class OffsetsFenced(ClientError):  # noqa: N818 - says what happened
    """Another consumer has claimed the partition, or the record was saved before: roll the transaction back."""

    @property
    def fatal(self) -> bool:
        """This consumer's view of its partitions is outdated: close it."""
        return True


class DatabaseConnection(Protocol):
    """What is used of a DB-API connection."""

    def cursor(self) -> Any: ...

    def commit(self) -> Any: ...

    def close(self) -> Any: ...


class SeekingConsumer(Protocol):
    """What is used of a consumer."""

    def seek(self, partition: TopicPartition, offset: int) -> None: ...


class DatabaseOffsets:
    """The offsets of one group, and the partitions that this process has claimed."""

    def __init__(
        self,
        connect: Callable[[], DatabaseConnection],
        group: str,
        *,
        table: str = TABLE,
        paramstyle: str | None = None,
    ) -> None:
        """`connect` opens a connection for each claim; `paramstyle` is the driver's, where its module does not say so.

        Several groups may share a table.
        """
        if _NAME.fullmatch(table) is None:
            raise ClientConfigError(f"table={table!r} must be a name, with a schema before it or without one")
        self._connect = connect
        self._group = group
        self._table = table
        self._paramstyle = paramstyle
        self._epochs: dict[TopicPartition, int] = {}

    def create_table(self) -> None:
        """Create the table if it does not exist."""
        with closing(self._connect()) as connection:
            self._execute(connection, _CREATE)
            connection.commit()

    def listener(self, consumer: SeekingConsumer) -> RebalanceListener:
        """For `subscribe`: claims partitions that are assigned, and reads them on from the saved offsets."""
        return _Claiming(self, consumer)

    def claim(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Become the owner of these partitions. Returns their saved offsets; those without one are left out."""
        saved: dict[TopicPartition, int] = {}
        with closing(self._connect()) as connection:
            for each in sorted(partitions):
                cursor = self._execute(connection, _CLAIM, self._group, each.topic, each.partition)
                ((next_offset, self._epochs[each]),) = cursor.fetchall()
                if next_offset != NEVER_SAVED:
                    saved[each] = next_offset
            connection.commit()
        return saved

    def release(self, partitions: Iterable[TopicPartition]) -> None:
        """Save nothing for these partitions any more."""
        for each in partitions:
            self._epochs.pop(each, None)

    def save(self, connection: DatabaseConnection, *records: ConsumerRecord[Any, Any]) -> None:
        """Save that these records are done, in the transaction of `connection`, which the caller commits.

        Raises OffsetsFenced; the transaction must not be committed then.
        """
        spans: dict[TopicPartition, tuple[int, int]] = {}
        for record in records:
            first, _ = spans.get(record.topic_partition, (record.offset, 0))
            spans[record.topic_partition] = (first, record.offset + 1)
        for each, (first, end) in sorted(spans.items()):
            epoch = self._epochs.get(each)
            if epoch is None:
                raise OffsetsFenced(f"{each} is not claimed by this consumer")
            row = (self._group, each.topic, each.partition)
            if self._execute(connection, _SAVE, end, *row, epoch, first).rowcount != 1:
                raise OffsetsFenced(
                    f"offset {first} of {each} is refused: group {self._group} has another owner of the partition than "
                    f"epoch {epoch}, or a later offset"
                )

    def _execute(self, connection: DatabaseConnection, statement: str, *values: object) -> Any:
        cursor = connection.cursor()
        statement = statement.format(table=self._table).replace("?", self._placeholder(connection))
        cursor.execute(statement, values)
        return cursor

    def _placeholder(self, connection: DatabaseConnection) -> str:
        style = self._paramstyle
        for kind in type(connection).__mro__:
            driver = sys.modules.get(kind.__module__.partition(".")[0])
            style = style or getattr(driver, "paramstyle", None)
        if style not in _PLACEHOLDERS:
            raise ClientConfigError(
                f"paramstyle={style!r} of {type(connection).__name__} must be one of {', '.join(_PLACEHOLDERS)}"
            )
        return _PLACEHOLDERS[style]


class _Claiming(RebalanceListener):
    def __init__(self, offsets: DatabaseOffsets, consumer: SeekingConsumer) -> None:
        self._offsets = offsets
        self._consumer = consumer

    def on_assigned(self, partitions: Iterable[TopicPartition]) -> None:
        for each, offset in self._offsets.claim(partitions).items():
            self._consumer.seek(each, offset)

    def on_revoked(self, partitions: Iterable[TopicPartition]) -> None:
        self._offsets.release(partitions)
