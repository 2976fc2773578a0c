"""Setup of Spark's Python workers, once for each kind of work. Called by readers and writers, and by the data source.

Spark collects garbage in a worker after every task, and a collection looks at every object of every module that was
imported: 45 ms of processor time with the kernels loaded, several times in a micro-batch. Modules never become garbage,
so they are excluded from collection (`gc.freeze`).
"""

import gc
import sys
import traceback
from functools import cache
from types import SimpleNamespace
from typing import Final

_PYSPARKS: Final = "pyspark.daemon"
_DAEMONS: Final = frozenset({_PYSPARKS, "tidelog.spark.daemon"})
LOST: Final = (BrokenPipeError, ConnectionResetError)
"""What a worker meets when Spark has closed the connection to it: at the end of a query, after everything went well."""


def settle(work: str) -> None:
    """Exclude all existing objects from garbage collection, if this process is a Spark worker.

    Once for each kind of `work`, which may have brought modules of its own.
    """
    if _name_of_main() in _DAEMONS:
        _freeze(work)


def print_no_lost_connections() -> None:
    """Let PySpark's own daemon, if it has forked this process, print no traceback of a connection that Spark closed.

    `tidelog.spark.daemon` takes its place for tasks. Workers that plan a query always are PySpark's.
    """
    if _name_of_main() == _PYSPARKS:
        sys.modules["__main__"].traceback = SimpleNamespace(  # type: ignore[attr-defined]
            print_exc=_print_unless_lost, format_exc=traceback.format_exc
        )


def _print_unless_lost() -> None:
    if not isinstance(sys.exc_info()[1], LOST):
        traceback.print_exc()


def _name_of_main() -> str | None:
    name: str | None = getattr(getattr(sys.modules.get("__main__"), "__spec__", None), "name", None)
    return name


@cache
def _freeze(work: str) -> None:
    del work
    gc.collect()
    gc.freeze()
