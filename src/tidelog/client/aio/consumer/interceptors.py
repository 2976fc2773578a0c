"""The interceptors of a consumer, called one after another. One that raises is logged and passed over, as in Kafka."""

import logging
from collections.abc import Sequence
from typing import Any, Final

from tidelog.client.aio.consumer.commits import Offsets
from tidelog.client.aio.consumer.listeners import ConsumerInterceptor
from tidelog.client.aio.consumer.types import ConsumerRecords
from tidelog.client.aio.settings import make_objects

_LOG: Final = logging.getLogger("tidelog.client.consumer")


class Interceptors:
    """Zero or more of them."""

    __slots__ = ("_each",)

    def __init__(self, interceptors: Sequence[ConsumerInterceptor]) -> None:
        self._each: tuple[ConsumerInterceptor, ...] = make_objects(
            "interceptor.classes", interceptors, ("on_consume", "on_commit", "close")
        )

    def on_consume(self, records: ConsumerRecords[Any, Any]) -> ConsumerRecords[Any, Any]:
        """What `poll` shall return."""
        for interceptor in self._each:
            try:
                changed = interceptor.on_consume(records)
                if not isinstance(changed, ConsumerRecords):
                    raise TypeError(f"on_consume returned {changed!r}, not ConsumerRecords")
                records = changed
            except Exception:  # noqa: BLE001 - code of the application; logged
                _LOG.exception("interceptor %r failed in on_consume", interceptor)
        return records

    def on_commit(self, offsets: Offsets) -> None:
        """Offsets were committed."""
        for interceptor in self._each:
            try:
                interceptor.on_commit(offsets)
            except Exception:  # noqa: BLE001 - code of the application; logged
                _LOG.exception("interceptor %r failed in on_commit", interceptor)

    def close(self) -> None:
        """The consumer is closed."""
        for interceptor in self._each:
            try:
                interceptor.close()
            except Exception:  # noqa: BLE001 - code of the application; logged
                _LOG.exception("interceptor %r failed in close", interceptor)
