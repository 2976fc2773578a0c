"""Which addresses answer, and when a client that never reached any of them gives up.

An address that cannot be reached is logged with the reason: at the first failure, then at most every 30 seconds until
it answers. As long as no broker ever answered, the client gives up after bootstrap.timeout.ms, because a wrong address
does not get better by waiting; once one has answered, the client tries for as long as its settings say.

Pure: the time is an argument.
"""

import logging
from typing import Final

from tidelog.client.errors import BootstrapFailed

_LOG: Final = logging.getLogger("tidelog.client")
_REPEAT_S: Final = 30.0


class Reachability:
    """What is known of the addresses of one client."""

    def __init__(self, bootstrap_timeout_ms: int, now_ms: int) -> None:
        self._bootstrap_timeout_ms = bootstrap_timeout_ms
        self._was_reached = False
        self._since_ms = now_ms
        """When the client was made, or last gave up."""
        self._failing: dict[str, str] = {}
        """Addresses whose last attempt failed, with the reason."""
        self._logged: dict[str, float] = {}

    def connected(self, address: str) -> None:
        """A broker at `address` answered."""
        self._was_reached = True
        if self._failing.pop(address, None) is not None:
            del self._logged[address]
            _LOG.info("broker at %s answers again", address)

    def failed(self, address: str, reason: str, now_s: float) -> None:
        """An attempt to connect to `address` failed."""
        self._failing[address] = reason
        logged = self._logged.get(address)
        if logged is None or now_s - logged >= _REPEAT_S:
            self._logged[address] = now_s
            _LOG.warning("no broker at %s: %s; retrying", address, reason)

    def give_up(self, now_ms: int) -> BootstrapFailed | None:
        """The error to raise if no broker was ever reached and the time for that is up; it then starts again."""
        if self._was_reached or now_ms - self._since_ms < self._bootstrap_timeout_ms:
            return None
        self._since_ms = now_ms
        return BootstrapFailed(self._failing, self._bootstrap_timeout_ms)
