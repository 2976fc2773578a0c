"""Shared by the two code generators: indented lines, fresh names, and the `struct` formats of fixed-width kinds.

Used by `_decoder_source` and `_encoder_source`.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from struct import Struct as Layout
from typing import Any, Final

FIXED_FORMATS: Final = {
    "boolean": "?",
    "int8": "b",
    "int16": "h",
    "uint16": "H",
    "int32": "i",
    "int64": "q",
    "float64": "d",
    "uuid": "16s",
}
"""The kinds of constant width, and how the `struct` module names them."""

TABLE_SIZE: Final = 9
"""Arrays of numbers shorter than this are read and written by a layout made beforehand."""


class Source:
    """One function under construction: its lines, and the objects that it refers to as globals."""

    def __init__(self, names: dict[str, Any]) -> None:
        self.names = names
        self._lines: list[str] = []
        self._depth = 0
        self._counter = 0

    def line(self, text: str) -> None:
        self._lines.append("    " * self._depth + text)

    @contextmanager
    def block(self, head: str) -> Iterator[None]:
        """Lines added inside are the body of `head`."""
        self.line(head)
        self._depth += 1
        yield
        self._depth -= 1

    def fresh(self, prefix: str) -> str:
        """A variable name not used before."""
        self._counter += 1
        return f"{prefix}{self._counter}"

    def refer(self, prefix: str, value: Any) -> str:
        """A global name for `value`, always the same one."""
        for name, known in self.names.items():
            if known is value:
                return name
        name = f"{prefix}_{len(self.names)}"
        self.names[name] = value
        return name

    def text(self) -> str:
        return "\n".join(self._lines) + "\n"


@cache
def layout(formats: str) -> Layout:
    return Layout(">" + formats)


@cache
def unpacker(formats: str) -> Callable[..., tuple[Any, ...]]:
    return layout(formats).unpack_from


@cache
def packer(formats: str) -> Callable[..., bytes]:
    return layout(formats).pack


@cache
def unpackers(element: str) -> tuple[Callable[..., tuple[Any, ...]], ...]:
    """By count: readers of that many elements."""
    return tuple(Layout(f">{count}{element}").unpack_from for count in range(TABLE_SIZE))


@cache
def packers(prefix: str, element: str) -> tuple[Callable[..., bytes], ...]:
    """By count: writers of a length in format `prefix` and that many elements."""
    return tuple(Layout(f">{prefix}{count}{element}").pack for count in range(TABLE_SIZE))
