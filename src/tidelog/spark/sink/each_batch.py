"""`write_each_batch`: the sink for `foreachBatch`, which is the way to write in update mode.

    query = counts.writeStream.outputMode("update").foreachBatch(
        write_each_batch(**{"kafka.bootstrap.servers": "localhost:9092", "topic": "counts"})
    )

Each batch is a batch write with the promise of the streaming sink: tasks know the query and the batch they belong to.
In Spark Connect they do not, and `transactionalId` stands for the query.
"""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from tidelog.spark.command_config import COMMAND_CONFIG
from tidelog.spark.internals import context_of
from tidelog.spark.options import OptionError, Options
from tidelog.spark.sink.checkpoint import plan_in_jvm
from tidelog.spark.sink.placement import is_placed, place_rows
from tidelog.spark.sink.settings import (
    AT_LEAST_ONCE,
    BATCH_OPTION,
    EXACTLY_ONCE,
    PLAN_OPTION,
    STREAM_OPTION,
    default_transactional_id,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_CONNECTION: Final = ("kafka.", COMMAND_CONFIG.lower())


def write_each_batch(**options: Any) -> Callable[["DataFrame", int], None]:
    """A function for `foreachBatch` that writes each batch exactly once, whatever the output mode.

    `options` are those of the sink. Rows are moved to the tasks that own their partitions, as `place_rows` does, unless
    they come from it. A function that writes to several topics can call several of these; two that write to the same
    topic need a `transactionalId` each. Spark Connect needs a `transactionalId` always: one name for each checkpoint.
    """
    texts = {name: _text(value) for name, value in options.items()}
    given = Options(texts)
    given.bootstrap_servers()
    delivery = given.text("delivery") or EXACTLY_ONCE

    def write(rows: "DataFrame", batch_id: int) -> None:
        chosen = {**texts, "delivery": delivery}
        if delivery != AT_LEAST_ONCE:
            chosen.update(_identity(rows, batch_id, given))
        if delivery == EXACTLY_ONCE and not is_placed(rows):
            rows = place_rows(rows, topic=given.text("topic"), **placing_options(texts))
        rows.write.format("tidelog").options(**chosen).mode("append").save()

    return write


def placing_options(options: Mapping[str, str]) -> dict[str, Any]:
    """Those of the sink's options that `place_rows` takes."""
    connection = {name: value for name, value in options.items() if name.lower().startswith(_CONNECTION)}
    return {**connection, "bootstrap_servers": Options(connection).bootstrap_servers()}


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _identity(rows: "DataFrame", batch_id: int, given: Options) -> dict[str, str]:
    """The options by which the sink recognises a batch that is repeated."""
    name = given.text("transactionalId")
    context = context_of(rows.sparkSession)
    if context is None:
        if name is None:
            raise OptionError(
                "the query of a foreachBatch call is unknown in Spark Connect, so a batch that is repeated could not "
                "be recognised: set transactionalId to a name of its own for each checkpoint, use "
                "writeStream.format('tidelog'), or set delivery=at-least-once"
            )
        return {BATCH_OPTION: str(batch_id)}
    # The same for every run on one checkpoint.
    query_id = context.getLocalProperty("sql.streaming.queryId")
    if query_id is None:
        raise OptionError("the function of write_each_batch was called outside of foreachBatch: use df.write instead")
    found = {} if name is not None else {"transactionalId": _default_id(query_id, given)}
    plan = plan_in_jvm(rows, query_id, batch_id)
    return found if plan is None else {**found, PLAN_OPTION: plan}


def _default_id(query_id: str, given: Options) -> str:
    if given.flag(STREAM_OPTION, False):
        return default_transactional_id(query_id)
    return default_transactional_id(f"{query_id}/{given.text('topic') or ''}")
