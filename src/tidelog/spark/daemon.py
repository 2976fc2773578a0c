"""The daemon that forks Spark's Python workers, quiet when Spark is done with one: `python -m tidelog.spark.daemon`.

When a query or a session ends, Spark closes the connection to a worker that still has to send its last bytes. PySpark's
daemon prints a traceback then (`BrokenPipeError`), after everything went well. This one is PySpark's, but for that.
"""

import socket

from pyspark import daemon

from tidelog.spark.worker import LOST

_worker = daemon.worker


def worker(sock: socket.socket, authenticated: bool) -> int:
    """Serve one task after another, as PySpark's `worker`. Returns 1 when Spark has closed the connection."""
    try:
        code: int = _worker(sock, authenticated)
    except LOST:
        return 1
    return code


if __name__ == "__main__":
    daemon.worker = worker
    daemon.manager()
