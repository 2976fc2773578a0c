"""The thread on which a remote store calls watchers and session listeners: in order, one at a time.

The threads that read from the network hand events over and go on. So a watcher may call the store, and wait for it,
without holding up the reply that it waits for.
"""

import logging
import threading
from collections import deque
from collections.abc import Callable

_logger = logging.getLogger(__name__)


class EventThread:
    """Runs what is posted. The thread starts with the first call and ends with `stop`."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._posted: deque[Callable[[], object]] = deque()
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._is_busy = False
        self._is_stopped = False

    def post(self, call: Callable[[], object]) -> None:
        """Run `call` after what was posted before. Nothing runs after `stop`."""
        with self._changed:
            if self._is_stopped:
                return
            self._posted.append(call)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
                self._thread.start()
            self._changed.notify_all()

    def wait_until_idle(self, timeout_s: float) -> bool:
        """Return when all that was posted has been run; False if it takes longer."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._posted and not self._is_busy, timeout_s)

    def stop(self) -> None:
        """Run nothing more; return when the call under way has ended, unless that is the one that stops."""
        with self._changed:
            self._is_stopped = True
            self._posted.clear()
            self._changed.notify_all()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()

    def _run(self) -> None:
        while True:
            with self._changed:
                self._is_busy = False
                self._changed.notify_all()
                self._changed.wait_for(lambda: self._posted or self._is_stopped)
                if self._is_stopped:
                    return
                call = self._posted.popleft()
                self._is_busy = True
            try:
                call()
            except Exception:
                _logger.exception("a listener of the metadata store failed")
