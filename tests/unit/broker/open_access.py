"""What a handler's context has where no authorizer and no quota is set, for contexts made by hand."""

from types import SimpleNamespace
from typing import Any, Final

OPEN_TO_ALL: Final[dict[str, Any]] = {
    "check_allowed": lambda *_: None,
    "is_allowed": lambda *_, **_options: True,
    "operations_allowed": lambda *_: 0,
    "mutation_quota": lambda *_: SimpleNamespace(take=lambda _count: None, throttle=lambda: None),
}
