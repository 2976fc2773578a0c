from collections.abc import Callable, Mapping
from typing import Any, Self

VERSION: int

class Appender:
    def __new__(
        cls,
        topics: Mapping[str, Any],
        topic_queue_class: type,
        partition_queue_class: type,
        batch_class: type,
        delivery_class: type,
        overhead_bytes: int,
        /,
    ) -> Self: ...
    def __call__(
        self,
        topic: str,
        value: bytes | None,
        key: bytes | None,
        partition: int | None,
        headers: object,
        timestamp_ms: int | None,
        on_delivery: object,
        /,
    ) -> Any: ...

class Send:
    def __new__(cls, function: Callable[..., Any], /) -> Self: ...
    def __call__(self, *arguments: Any, **named: Any) -> Any: ...
