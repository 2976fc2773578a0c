"""How requests of the hot path are read: into rows of plain values, with records left where they lie.

    Row(("name",), inner="partition_data", as_bytes=("name",))

says which fields of a declared struct a tuple has, and in which order; the declaration says the rest: kinds, versions,
nulls and tags. `RowDecoder` compiles the two into functions for each version, when that version is first read, and into
a program for the optional C module, which reads the same rows. So a new version of a request is a line in its
declaration.

Records are a span: two columns, where they start and stop in the buffer, -1 and -1 for null.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from struct import error as struct_error
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from tidelog.wire._native import speedups
from tidelog.wire.errors import WireError
from tidelog.wire.fields import Declared, DeclaredMessage
from tidelog.wire.primitives import Buffer
from tidelog.wire.rows import Row

if TYPE_CHECKING:
    from tidelog.wire._span_program import Program

__all__ = ["Row", "RowDecoder"]

R = TypeVar("R")

_UNREADABLE: Final = (struct_error, IndexError, UnicodeDecodeError)
_Decode = Callable[[Buffer, int, int], Any]
_decode_rows: Final[Any] = None if speedups is None else speedups.decode_rows


class RowDecoder(Generic[R]):
    """Reads the requests of one API."""

    __slots__ = ("_elements_max", "_message", "_of_any_shape", "_programs", "_rows", "_single")

    def __init__(
        self, message: type[DeclaredMessage], rows: Mapping[type[Declared], Row], *, elements_max: int | None = None
    ) -> None:
        """`elements_max` bounds each array of the request, with all that is inside it."""
        self._message = message
        self._rows = rows
        self._elements_max = elements_max
        self._programs: dict[int, Program | None] = {}
        self._single: dict[int, _Decode] = {}
        self._of_any_shape: dict[int, _Decode] = {}

    def decode(self, data: Buffer, position: int, end: int, version: int) -> R:
        """The row of the request whose body is `data[position:end]`. Raises WireError."""
        program = self._programs.get(version)
        if program is not None:
            row: R | None = _decode_rows(data, position, end, program)
            if row is not None:
                return row
        elif _decode_rows is not None and version not in self._programs:
            self._programs[version] = self._make_program(version)
        return self.decode_in_python(data, position, end, version)

    def decode_in_python(self, data: Buffer, position: int, end: int, version: int) -> R:
        """The same without the C module. Raises WireError."""
        row = self.decode_single(data, position, end, version)
        return self.decode_of_any_shape(data, position, end, version) if row is None else row

    def decode_single(self, data: Buffer, position: int, end: int, version: int) -> R | None:
        """The same for the usual request, of one element in each array; None for others, and for broken ones."""
        decode = self._single.get(version)
        if decode is None:
            decode = self._single[version] = self._compile(version, is_single=True)
        try:
            row: R | None = decode(data, position, end)
        except (*_UNREADABLE, WireError):
            return None
        return row

    def decode_of_any_shape(self, data: Buffer, position: int, end: int, version: int) -> R:
        """The same, field by field. Raises WireError."""
        decode = self._of_any_shape.get(version)
        if decode is None:
            decode = self._of_any_shape[version] = self._compile(version, is_single=False)
        try:
            row: R = decode(data, position, end)
        except _UNREADABLE as cause:
            title = f"{self._message.__name__} v{version}"
            raise WireError(f"{title}: the request ends or breaks off within a field ({cause})") from cause
        return row

    def _make_program(self, version: int) -> Program | None:
        from tidelog.wire._span_program import span_program

        return span_program(self._message, self._rows, version, self._elements_max)

    def _compile(self, version: int, *, is_single: bool) -> _Decode:
        from tidelog.wire._compiler import compile_row_decoder

        return compile_row_decoder(self._message, self._rows, version, self._elements_max, is_single=is_single)
