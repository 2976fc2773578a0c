"""Generates the function that reads one version of one message.

The whole message becomes one function that, on the usual path, calls no other Python function: nested structs are loops
inside it. Values of constant width that follow each other, and the first byte of the length of whatever comes next, are
read by one `struct` call. The brokers of a MetadataResponse, for example:

    for _ in range(n2):
        o4 = new(MetadataResponseBroker)
        o4.unknown_tagged_fields = None
        o4.node_id, n5, = unpack_7(buf, p)
        p += 5
        ...

Positions only ever grow, and slices beyond the end of a buffer are silently short, so it is enough to compare the final
position with the length of the buffer. Counts of arrays are different: they are checked against the bytes that are left
before anything is allocated for them.

A sliced decoder reads the same bytes as a generator: it yields after every few hundred elements, so that large requests
can be read a few milliseconds at a time, and rejects a message with more than `left` elements and tagged fields.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from struct import unpack_from
from typing import Any, Final

from tidelog.wire._source import FIXED_FORMATS, TABLE_SIZE, Source, layout, unpacker, unpackers
from tidelog.wire.errors import WireError
from tidelog.wire.fields import LATEST, Declared, DeclaredMessage, Field
from tidelog.wire.primitives import (
    NO_UUID,
    Buffer,
    checked_string_bytes,
    checked_tag_count,
    continue_uvarint,
    decode_uvarint,
)

_TEXTS: Final = ("string", "name")
"""The kinds with the length of a string. A `name` is one that stays bytes; no field is declared as such."""
_SLICE_ELEMENTS: Final = 256
"""Read between two yields of a sliced decoder: some 0.2 ms."""


def decoder_source(cls: type[DeclaredMessage], version: int, *, from_bytes: bool, sliced: bool = False) -> Source:
    """The source of `decode(buf, p)` for one version; `from_bytes` if `buf` will always be a bytes object.

    That of a sliced decoder, `decode(buf, p, left)`, takes the number of elements that the message may have.
    """
    source = Source(decoder_names())
    writer = DecoderWriter(source, version, flexible=version >= cls.flexible_from, from_bytes=from_bytes, sliced=sliced)
    with source.block("def decode(buf, p, left):" if sliced else "def decode(buf, p):"):
        source.line("end = len(buf)")
        if sliced:
            source.line("if False: yield")
            source.line("pause = left")
        message = writer.struct(cls)
        writer.flush()
        with source.block("if p > end:"):
            source.line(f"raise WireError(f'{cls.__name__} v{version} ends at {{p}}, beyond its {{end}} bytes')")
        source.line(f"return {message}")
    return source


def decoder_names() -> dict[str, Any]:
    """What the generated code refers to."""
    return {
        "new": object.__new__,
        "WireError": WireError,
        "NO_UUID": NO_UUID,
        "unpack_from": unpack_from,
        "continue_uvarint": continue_uvarint,
        "continue_string": continue_string,
        "tag_count": tag_count,
        "tag_and_end": tag_and_end,
        "unknown_fields": unknown_fields,
        "too_many_elements": too_many_elements,
    }


def continue_string(buffer: Buffer, position: int, first: int) -> tuple[int, int]:
    """The rest of a compact string's length that takes more than one byte."""
    length, position = continue_uvarint(buffer, position, first)
    checked_string_bytes(length - 1)
    return length, position


def tag_count(buffer: Buffer, position: int, first: int) -> tuple[int, int]:
    """The number of tagged fields, given its first byte; checked against the bytes that are left."""
    count = first
    if first > 127:
        count, position = continue_uvarint(buffer, position, first)
    return checked_tag_count(count, len(buffer) - position), position


def tag_and_end(buffer: Buffer, position: int) -> tuple[int, int, int]:
    """Read the prefix of a tagged field: its tag, and where the field begins and ends."""
    tag, position = decode_uvarint(buffer, position)
    size, position = decode_uvarint(buffer, position)
    if position + size > len(buffer):
        raise WireError(f"tagged field {tag} of {size} bytes ends beyond the buffer's {len(buffer)} bytes")
    return tag, position, position + size


def unknown_fields(buffer: Buffer, position: int, count: int) -> tuple[dict[int, bytes], int]:
    """The raw tagged fields of a struct that declares none."""
    fields: dict[int, bytes] = {}
    for _ in range(count):
        tag, position, end = tag_and_end(buffer, position)
        fields[tag] = bytes(buffer[position:end])
        position = end
    return fields, position


def too_many_elements(excess: int) -> WireError:
    return WireError(f"the request has more elements than allowed, by {excess} or more")


class DecoderWriter:
    """Generates the code that reads structs and fields.

    `_run` collects fixed-width values, as format and target, until the position after them is needed; every line that
    uses `p` therefore comes after a `flush`.
    """

    def __init__(self, source: Source, version: int, *, flexible: bool, from_bytes: bool, sliced: bool) -> None:
        self._source = source
        self._version = version
        self._flexible = flexible
        self._from_bytes = from_bytes
        self._sliced = sliced
        self._run: list[tuple[str, str]] = []

    def flush(self) -> None:
        """Read the values that the run has collected."""
        run, self._run = self._run, []
        if not run:
            return
        formats = "".join(item[0] for item in run)
        if formats == "B":
            self._source.line(f"{run[0][1]} = buf[p]")
            self._source.line("p += 1")
            return
        targets = ", ".join(item[1] for item in run)
        reader = self._source.refer("unpack", unpacker(formats))
        self._source.line(f"{targets}, = {reader}(buf, p)")
        self._source.line(f"p += {layout(formats).size}")

    def struct(self, cls: type[Declared]) -> str:
        """Read a struct; the variable that holds it."""
        source = self._source
        target = source.fresh("o")
        source.line(f"{target} = new({source.refer(cls.__name__, cls)})")
        self._defaults(cls, target)
        for name, field in cls.fields.items():
            if field.is_in(self._version) and field.tag is None:
                self._field(f"{target}.{name}", name, field)
        if self._flexible:
            self._tagged_fields(cls, target)
        return target

    def _defaults(self, cls: type[Declared], target: str) -> None:
        """Set the fields that the bytes may not contain to their defaults, equal ones in one assignment."""
        assignments = {"None": [f"{target}.unknown_tagged_fields"]}
        for name, field in cls.fields.items():
            if field.is_in(self._version) and field.tag is None:
                continue
            default = self._default(field)
            if default == "[]" or default.endswith("()"):
                self._source.line(f"{target}.{name} = {default}")
            else:
                assignments.setdefault(default, []).append(f"{target}.{name}")
        for default, targets in assignments.items():
            self._source.line(f"{' = '.join(targets)} = {default}")

    def _default(self, field: Field) -> str:
        if isinstance(field.element, type) and field.kind == "struct":
            may_be_null = field.null_since < LATEST
            return "None" if may_be_null else f"{self._source.refer(field.element.__name__, field.element)}()"
        if field.default == ():
            return "[]"
        return "NO_UUID" if field.default is NO_UUID else repr(field.default)

    def _field(self, target: str, name: str, field: Field) -> None:
        """Read one field that the version has into `target`."""
        nullable = field.null_since <= self._version
        if field.kind in FIXED_FORMATS:
            self._run.append((FIXED_FORMATS[field.kind], target))
        elif field.kind == "array":
            self._array(target, name, field.element, nullable)
        elif field.kind == "struct":
            self._nested_struct(target, field.element, nullable)
        else:
            self._bytes(target, name, field.kind, nullable)

    def _nested_struct(self, target: str, cls: str | type[Declared], nullable: bool) -> None:
        assert isinstance(cls, type)
        if not nullable:
            nested = self.struct(cls)
            self._source.line(f"{target} = {nested}")
            return
        # A struct that may be null begins with a byte: negative for null, 1 otherwise (KIP-893).
        marker = self._source.fresh("n")
        self._run.append(("b", marker))
        self.flush()
        with self._source.block(f"if {marker} < 0:"):
            self._source.line(f"{target} = None")
        with self._source.block("else:"):
            nested = self.struct(cls)
            self.flush()
            self._source.line(f"{target} = {nested}")

    def _length(self, legacy_format: str) -> str:
        """Read the first byte of a compact length, or all of another; the variable that holds it."""
        length = self._source.fresh("n")
        self._run.append(("B" if self._flexible else legacy_format, length))
        self.flush()
        return length

    def _null(self, length: str, target: str, name: str, nullable: bool) -> None:
        """Handle a length that means null; an `else` block must follow."""
        with self._source.block(f"if {length} == 0:" if self._flexible else f"if {length} < 0:"):
            if nullable:
                self._source.line(f"{target} = None")
            else:
                self._source.line(f"raise WireError('{name} may not be null in version {self._version}')")

    def _bytes(self, target: str, name: str, kind: str, nullable: bool) -> None:
        source = self._source
        length = self._length("h" if kind in _TEXTS else "i")
        self._null(length, target, name, nullable)
        with source.block("else:"):
            self._continue_length(length, "continue_string" if kind in _TEXTS else "continue_uvarint")
            after = source.fresh("e")
            source.line(f"{after} = p + {length}" + (" - 1" if self._flexible else ""))
            source.line(f"{target} = {self._slice(kind, f'buf[p:{after}]')}")
            source.line(f"p = {after}")

    def _continue_length(self, length: str, more: str) -> None:
        """Read the rest of a compact length."""
        if self._flexible:
            with self._source.block(f"if {length} > 127:"):
                self._source.line(f"{length}, p = {more}(buf, p, {length})")

    def _slice(self, kind: str, piece: str) -> str:
        if kind == "record_batches":
            return piece
        if kind == "string":
            return f"{piece}.decode()" if self._from_bytes else f"str({piece}, 'utf-8')"
        return piece if self._from_bytes else f"bytes({piece})"

    def _array(self, target: str, name: str, element: str | type[Declared], nullable: bool) -> None:
        source = self._source
        count = self._length("i")
        self._null(count, target, name, nullable)
        with source.block("else:"):
            self._continue_length(count, "continue_uvarint")
            if self._flexible:
                source.line(f"{count} -= 1")
            least = self._bytes_min(element)
            needed = count if least == 1 else f"{count} * {least}"
            with source.block(f"if {needed} > end - p:"):
                source.line(f"raise WireError(f'{{{count}}} {name} cannot be in {{end - p}} bytes')")
            self._count_elements(count)
            if isinstance(element, type):
                self._structs(target, element, count)
            elif element in FIXED_FORMATS:
                self._numbers(target, element, count)
            else:
                self._strings(target, name, element, count)

    def _structs(self, target: str, element: type[Declared], count: str) -> None:
        append = self._new_list(target)
        with self._loop(count):
            item = self.struct(element)
            self.flush()
            self._source.line(f"{append}({item})")

    def _new_list(self, target: str) -> str:
        """Make `target` a list; what appends to it."""
        append = self._source.fresh("a")
        self._source.line(f"{append} = {target} = []")
        self._source.line(f"{append} = {append}.append")
        return append

    def _numbers(self, target: str, kind: str, count: str) -> None:
        formats = FIXED_FORMATS[kind]
        if kind == "uuid":
            self._source.line(f"{target} = [bytes(buf[i : i + 16]) for i in range(p, p + {count} * 16, 16)]")
        else:
            table = self._source.refer("unpackers", unpackers(formats))
            short = f"{table}[{count}](buf, p)"
            long = f"unpack_from(f'>{{{count}}}{formats}', buf, p)"
            self._source.line(f"{target} = list({short} if {count} < {TABLE_SIZE} else {long})")
        self._source.line(f"p += {count} * {layout(formats).size}")

    def _strings(self, target: str, name: str, kind: str, count: str) -> None:
        source = self._source
        values, value = source.fresh("a"), source.fresh("v")
        source.line(f"{values} = []")
        source.line(f"{target} = {values}")
        with self._loop(count):
            self._bytes(value, name, kind, nullable=False)
            source.line(f"{values}.append({value})")

    @contextmanager
    def _loop(self, count: str) -> Iterator[None]:
        """Lines added inside run for each element of a list."""
        if not self._sliced:
            with self._source.block(f"for _ in range({count}):"):
                yield
            return
        index = self._source.fresh("i")
        with self._source.block(f"for {index} in range({count}):"):
            self._source.line(f"if {index} % {_SLICE_ELEMENTS} == {_SLICE_ELEMENTS - 1}: yield")
            yield

    def _count_elements(self, count: str) -> None:
        """Subtract elements from `left`; also pause where there are many short lists."""
        if self._sliced:
            self._source.line(f"left -= {count}")
            with self._source.block("if left < pause:"):
                self._source.line("if left < 0: raise too_many_elements(-left)")
                self._source.line(f"pause = left - {_SLICE_ELEMENTS}")
                self._source.line("yield")

    def _bytes_min(self, element: str | type[Declared]) -> int:
        """The smallest size of an element, to detect a false count."""
        if not isinstance(element, type):
            if element in FIXED_FORMATS:
                return layout(FIXED_FORMATS[element]).size
            return 1 if self._flexible else 2
        total = 1 if self._flexible else 0
        for field in element.fields.values():
            if field.is_in(self._version) and field.tag is None:
                total += self._field_bytes_min(field)
        return max(total, 1)

    def _field_bytes_min(self, field: Field) -> int:
        if field.kind in FIXED_FORMATS:
            return layout(FIXED_FORMATS[field.kind]).size
        if field.kind == "struct":
            return 1 if field.null_since <= self._version else self._bytes_min(field.element)
        if self._flexible:
            return 1
        return 2 if field.kind == "string" else 4

    def _tagged_fields(self, cls: type[Declared], target: str) -> None:
        """Read the tagged fields that end a flexible struct. Almost always there are none."""
        source = self._source
        count = source.fresh("n")
        self._run.append(("B", count))
        self.flush()
        tagged = [(name, f) for name, f in cls.fields.items() if f.tag is not None and f.is_in(self._version)]
        with source.block(f"if {count}:"):
            source.line(f"{count}, p = tag_count(buf, p, {count})")
            self._count_elements(count)
            if not tagged:
                source.line(f"{target}.unknown_tagged_fields, p = unknown_fields(buf, p, {count})")
                return
            tag, after = source.fresh("t"), source.fresh("e")
            with source.block(f"for _ in range({count}):"):
                source.line(f"{tag}, p, {after} = tag_and_end(buf, p)")
                keyword = "if"
                for name, field in tagged:
                    with source.block(f"{keyword} {tag} == {field.tag}:"):
                        self._field(f"{target}.{name}", name, field)
                        self.flush()
                    keyword = "elif"
                with source.block("else:"):
                    with source.block(f"if {target}.unknown_tagged_fields is None:"):
                        source.line(f"{target}.unknown_tagged_fields = {{}}")
                    source.line(f"{target}.unknown_tagged_fields[{tag}] = bytes(buf[p:{after}])")
                    source.line(f"p = {after}")
                with source.block(f"if p != {after}:"):
                    source.line(f"raise WireError(f'tagged field {{{tag}}} ends at {{p}}, not at {{{after}}}')")
