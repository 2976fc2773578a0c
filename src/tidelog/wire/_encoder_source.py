"""Generates the function that writes one version of one message.

The mirror image of `_decoder_source`: one function per message, nested structs as loops inside it, and neighbouring
values of constant width, with the length of whatever follows them, packed by one `struct` call. The pieces are joined
at the end. A sliced encoder is a generator that yields after every few hundred elements, and joins the pieces then.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from struct import pack
from typing import Final

from tidelog.wire._source import FIXED_FORMATS, TABLE_SIZE, Source, packer, packers
from tidelog.wire.errors import ERROR_MESSAGE_LENGTH_MAX, EncodeError, clipped_message
from tidelog.wire.fields import Declared, DeclaredMessage, Field
from tidelog.wire.primitives import NO_UUID, STRING_BYTES_MAX, UVARINTS, encode_uvarint

_CLIPPED: Final = "error_message"
"""The field of responses whose text quotes the request; it must not make a response too long."""

_SLICE_ELEMENTS: Final = 256
"""Written between two yields of a sliced encoder: some 0.2 ms."""


def encoder_source(cls: type[DeclaredMessage], version: int, *, sliced: bool = False) -> Source:
    """The source of `encode(o)` for one version."""
    source = Source(
        {
            "NO_UUID": NO_UUID,
            "UVARINTS": UVARINTS,
            "pack": pack,
            "clipped_message": clipped_message,
            "encode_uvarint": encode_uvarint,
            "string_length": string_length,
            "tagged_fields": tagged_fields,
            "wrong_uuid": wrong_uuid,
        }
    )
    writer = _EncoderWriter(source, version, version >= cls.flexible_from, sliced)
    with source.block("def encode(o):"):
        if sliced:
            source.line("if False: yield")
            source.line("done = 0")
            source.line("whole = bytearray()")
        source.line("out = []")
        source.line("w = out.append")
        writer.struct(cls, "o")
        writer.flush()
        source.line("whole += b''.join(out)" if sliced else "return b''.join(out)")
        if sliced:
            source.line("return bytes(whole)")
    return source


def string_length(length: int) -> bytes:
    """The length field of a compact string that takes more than one byte."""
    if length > STRING_BYTES_MAX + 1:
        raise EncodeError(f"string of {length - 1} bytes is longer than {STRING_BYTES_MAX}")
    return encode_uvarint(length)


def tagged_fields(known: Iterable[tuple[int, bytes]], unknown: dict[int, bytes] | None) -> bytes:
    """The tagged fields at the end of a struct, in the order of their tags."""
    fields = dict(unknown) if unknown else {}
    fields.update(known)
    pieces = [encode_uvarint(len(fields))]
    for tag in sorted(fields):
        pieces += (encode_uvarint(tag), encode_uvarint(len(fields[tag])), fields[tag])
    return b"".join(pieces)


def wrong_uuid(value: bytes) -> None:
    raise EncodeError(f"a uuid has 16 bytes, not {len(value)}")


class _EncoderWriter:
    """Generates the code that writes structs and fields.

    `_run` collects fixed-width values, as format and expression, until bytes of another kind follow them. Expressions
    are evaluated at the next `flush`; their inputs must not change before.
    """

    def __init__(self, source: Source, version: int, flexible: bool, sliced: bool) -> None:
        self._source = source
        self._version = version
        self._flexible = flexible
        self._sliced = sliced
        self._run: list[tuple[str, str]] = []
        self._write = "w"

    def flush(self) -> None:
        """Write the values that the run has collected."""
        if self._run:
            self._source.line(f"{self._write}({self._packed()})")
            self._run = []

    def _packed(self, more: str = "", value: str = "") -> str:
        """The call that packs the run and one more item."""
        formats = "".join(item[0] for item in self._run) + more
        values = [item[1] for item in self._run] + ([value] if value else [])
        return f"{self._source.refer('pack', packer(formats))}({', '.join(values)})"

    def _flush_with_uvarint(self, length: str, encoder: str = "encode_uvarint") -> None:
        """Write the run and an unsigned varint, as one piece if the varint is a single byte."""
        source = self._source
        if not self._run:
            source.line(f"{self._write}(UVARINTS[{length}] if {length} < 512 else {encoder}({length}))")
            return
        with source.block(f"if {length} < 128:"):
            source.line(f"{self._write}({self._packed('B', length)})")
        with source.block("else:"):
            source.line(f"{self._write}({self._packed()})")
            source.line(f"{self._write}({encoder}({length}))")
        self._run = []

    def struct(self, cls: type[Declared], subject: str) -> None:
        """Write the struct that the variable `subject` holds."""
        for name, field in cls.fields.items():
            if field.is_in(self._version) and field.tag is None:
                self._field(self._clipped(f"{subject}.{name}") if name == _CLIPPED else f"{subject}.{name}", field)
        if self._flexible:
            self._tagged_fields(cls, subject)

    def _clipped(self, value: str) -> str:
        """An error message, cut to its maximum length."""
        text = self._source.fresh("m")
        self._source.line(f"{text} = {value}")
        self._source.line(
            f"if {text} is not None and len({text}) > {ERROR_MESSAGE_LENGTH_MAX}: {text} = clipped_message({text})"
        )
        return text

    def _field(self, value: str, field: Field) -> None:
        nullable = field.null_since <= self._version
        if field.kind == "uuid":
            self._source.line(f"if len({value}) != 16: wrong_uuid({value})")
        if field.kind in FIXED_FORMATS:
            self._run.append((FIXED_FORMATS[field.kind], value))
        elif field.kind == "array":
            self._array(value, field.element, nullable)
        elif field.kind == "struct":
            self._nested_struct(value, field.element, nullable)
        else:
            self._bytes(value, field.kind, nullable)

    def _nested_struct(self, value: str, cls: str | type[Declared], nullable: bool) -> None:
        assert isinstance(cls, type)
        source = self._source
        nested = source.fresh("o")
        source.line(f"{nested} = {value}")
        if not nullable:
            self.struct(cls, nested)
            return
        self.flush()
        with source.block(f"if {nested} is None:"):
            source.line(f"{self._write}(b'\\xff')")
        with source.block("else:"):
            source.line(f"{self._write}(b'\\x01')")
            self.struct(cls, nested)
            self.flush()

    def _bytes(self, value: str, kind: str, nullable: bool) -> None:
        source = self._source
        content, length = source.fresh("s"), source.fresh("n")
        as_bytes = f"{value}.encode()" if kind == "string" else value
        actual = f"len({content}) + 1" if self._flexible else f"len({content})"
        if nullable:
            source.line(f"{content} = {value}")
            with source.block(f"if {content} is None:"):
                source.line(f"{content} = b''")
                source.line(f"{length} = {0 if self._flexible else -1}")
            with source.block("else:"):
                if kind == "string":
                    source.line(f"{content} = {content}.encode()")
                source.line(f"{length} = {actual}")
        else:
            source.line(f"{content} = {as_bytes}")
            source.line(f"{length} = {actual}")
        if self._flexible:
            self._flush_with_uvarint(length, "string_length" if kind == "string" else "encode_uvarint")
        else:
            self._run.append(("h" if kind == "string" else "i", length))
            self.flush()
        source.line(f"{self._write}({content})")

    def _array(self, value: str, element: str | type[Declared], nullable: bool) -> None:
        source = self._source
        items = source.fresh("a")
        source.line(f"{items} = {value}")
        if not nullable:
            self._items(items, element)
            return
        self.flush()
        with source.block(f"if {items} is None:"):
            source.line(f"{self._write}({'UVARINTS[0]' if self._flexible else repr(bytes([255] * 4))})")
        with source.block("else:"):
            self._items(items, element)

    def _items(self, items: str, element: str | type[Declared]) -> None:
        source = self._source
        count = source.fresh("n")
        source.line(f"{count} = len({items})")
        if isinstance(element, str) and element in FIXED_FORMATS and element != "uuid":
            self._numbers(items, element, count)
            return
        if self._flexible:
            source.line(f"{count} += 1")
            self._flush_with_uvarint(count)
        else:
            self._run.append(("i", count))
            self.flush()
        item = source.fresh("o")
        with self._loop(item, items, count):
            if isinstance(element, type):
                self.struct(element, item)
                self.flush()
            elif element == "uuid":
                source.line(f"if len({item}) != 16: wrong_uuid({item})")
                source.line(f"{self._write}({item})")
            else:
                self._bytes(item, element, nullable=False)

    @contextmanager
    def _loop(self, item: str, items: str, count: str) -> Iterator[None]:
        """Lines added inside run for each element of a list."""
        source = self._source
        if not self._sliced:
            with source.block(f"for {item} in {items}:"):
                yield
            return
        source.line(f"done += {count}")
        with source.block(f"if done > {_SLICE_ELEMENTS}:"):
            source.line("done = 0")
            self._pause()
        index = source.fresh("i")
        with source.block(f"for {index}, {item} in enumerate({items}):"):
            with source.block(f"if {index} % {_SLICE_ELEMENTS} == {_SLICE_ELEMENTS - 1}:"):
                self._pause()
            yield

    def _pause(self) -> None:
        """Join the pieces, because joining and freeing a hundred thousand at once takes long; then yield."""
        self._source.line("whole += b''.join(out)")
        self._source.line("out.clear()")
        self._source.line("yield")

    def _numbers(self, items: str, kind: str, count: str) -> None:
        """Write all numbers of a list at once, with their count; a short list uses a precompiled layout."""
        source = self._source
        self.flush()
        formats = FIXED_FORMATS[kind]
        table = source.refer("packers", packers("B" if self._flexible else "i", formats))
        first = f"{count} + 1" if self._flexible else count
        with source.block(f"if {count} < {TABLE_SIZE}:"):
            source.line(f"{self._write}({table}[{count}]({first}, *{items}))")
        with source.block("else:"):
            length = f"encode_uvarint({first})" if self._flexible else f"pack('>i', {count})"
            source.line(f"{self._write}({length})")
            source.line(f"{self._write}(pack(f'>{{{count}}}{formats}', *{items}))")

    def _tagged_fields(self, cls: type[Declared], subject: str) -> None:
        """Write the tagged fields that end a flexible struct: only those that differ from their defaults."""
        source = self._source
        tagged = [(n, f) for n, f in cls.fields.items() if f.tag is not None and f.is_in(self._version)]
        differs = [self._differs(f"{subject}.{name}", field) for name, field in tagged]
        with source.block(f"if {' or '.join([f'{subject}.unknown_tagged_fields', *differs])}:"):
            if self._run:
                source.line(f"{self._write}({self._packed()})")
            run, self._run = self._run, []
            known = source.fresh("k")
            if tagged:
                source.line(f"{known} = []")
            for (name, field), condition in zip(tagged, differs, strict=True):
                with source.block(f"if {condition}:"):
                    self._tagged_field(f"{subject}.{name}", field, known)
            fields = f"{known if tagged else '()'}, {subject}.unknown_tagged_fields"
            source.line(f"{self._write}(tagged_fields({fields}))")
            self._run = run
        with source.block("else:"):
            source.line(f"{self._write}({self._packed('x') if self._run else 'UVARINTS[0]'})")
        self._run = []

    def _tagged_field(self, value: str, field: Field, known: str) -> None:
        """Write one tagged field into a list of pieces of its own, since its size comes first."""
        source = self._source
        outer = self._write
        pieces = source.fresh("w")
        source.line(f"{pieces} = []")
        self._write = f"{pieces}.append"
        self._field(value, field)
        self.flush()
        self._write = outer
        source.line(f"{known}.append(({field.tag}, b''.join({pieces})))")

    def _differs(self, value: str, field: Field) -> str:
        """An expression that is true if the value is not the default."""
        if isinstance(field.element, type) and field.kind == "struct":
            if field.null_since <= self._version:
                return f"{value} is not None"
            parts = [self._differs(f"{value}.{name}", inner) for name, inner in field.element.fields.items()]
            return f"({' or '.join([f'{value}.unknown_tagged_fields', *parts])})"
        if field.kind == "array":
            return f"{value} is not None" if field.default is None else f"({value} is None or {value})"
        if field.default is None:
            return f"{value} is not None"
        return f"{value} != {'NO_UUID' if field.default is NO_UUID else repr(field.default)}"
