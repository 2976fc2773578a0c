"""A shared tree in a thread of the test, or in a process of its own."""

import asyncio
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tidelog.metadata.embedded import METADATA_FILE_NAME, EmbeddedStore
from tidelog.metadata.shared_server import SharedTreeServer

SERVE = """
import asyncio, sys
from tidelog.metadata.embedded import EmbeddedStore
from tidelog.metadata.shared_server import SharedTreeServer

async def serve():
    server = SharedTreeServer(EmbeddedStore(sys.argv[1]), sys.argv[2])
    await server.start()
    print("ready", flush=True)
    await asyncio.Event().wait()

asyncio.run(serve())
"""


class TreeThread:
    """A server on an event loop of its own."""

    def __init__(self, directory: Path) -> None:
        self.path = str(directory / "socket")
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        tree = EmbeddedStore(str(directory / METADATA_FILE_NAME))
        try:
            self.server = SharedTreeServer(tree, self.path)
            self._run(self.server.start())
        except BaseException:
            tree.close()
            self._end_loop()
            raise

    def stop(self) -> None:
        self._run(self.server.stop())
        self._end_loop()

    def _run(self, coroutine) -> None:
        asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(30)

    def _end_loop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


@contextmanager
def short_directory() -> Iterator[Path]:
    """A directory whose path leaves room for a socket's name."""
    with tempfile.TemporaryDirectory(prefix="tl-") as directory:
        yield Path(directory)


@contextmanager
def serving(directory: Path) -> Iterator[TreeThread]:
    tree = TreeThread(directory)
    try:
        yield tree
    finally:
        tree.stop()


@contextmanager
def serving_process(directory: Path) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-c", SERVE, str(directory / METADATA_FILE_NAME), str(directory / "socket")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
            yield process
        finally:
            process.kill()
