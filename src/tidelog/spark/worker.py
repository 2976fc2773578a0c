"""Setup of Spark's Python workers, once for each kind of work. Called by readers and writers.

Spark collects garbage in a worker after every task, and a collection looks at every object of every module that was
imported: 45 ms of processor time with the kernels loaded, several times in a micro-batch. Modules never become garbage,
so they are excluded from collection (`gc.freeze`).
"""

import gc
import sys
from functools import cache
from typing import Final

_WORKER: Final = "pyspark.daemon"


def settle(work: str) -> None:
    """Exclude all existing objects from garbage collection, if this process is a Spark worker.

    Once for each kind of `work`, which may have brought modules of its own.
    """
    main = sys.modules.get("__main__")
    if getattr(getattr(main, "__spec__", None), "name", None) == _WORKER:
        _freeze(work)


@cache
def _freeze(work: str) -> None:
    del work
    gc.collect()
    gc.freeze()
