"""Compiles declarations into functions, at the first use.

Called by `schema` and `spans` only: `compile_constructor` for the first object of a class, the others for the first
message of a version. The results are kept, so each runs once per class and version.
"""

from collections.abc import Callable, Generator, Mapping
from typing import Any, Final

from tidelog.wire._decoder_source import decoder_source
from tidelog.wire._encoder_source import encoder_source
from tidelog.wire._source import Source
from tidelog.wire._span_source import single_source, span_source
from tidelog.wire.errors import EncodeError, WireError
from tidelog.wire.fields import LATEST, Declared, DeclaredMessage, Field
from tidelog.wire.primitives import Buffer
from tidelog.wire.rows import Row

_ABSENT: Final = object()
"""Marks an argument that was not given, where each object needs a new default."""


def compile_encoder(cls: type[DeclaredMessage], version: int) -> Callable[[Any], bytes]:
    """The function that writes this version."""
    encoder: Callable[[Any], bytes] = _encoder(cls, version, sliced=False)
    return encoder


def compile_sliced_encoder(cls: type[DeclaredMessage], version: int) -> Callable[[Any], Generator[None, None, bytes]]:
    """The generator function that writes this version in slices."""
    encoder: Callable[[Any], Generator[None, None, bytes]] = _encoder(cls, version, sliced=True)
    return encoder


def compile_decoder(cls: type[DeclaredMessage], version: int, *, from_bytes: bool) -> Callable[[Buffer, int], Any]:
    """The function that reads this version, from `bytes` or from any buffer."""
    decoder: Callable[[Buffer, int], Any] = _decoder(cls, version, from_bytes=from_bytes, sliced=False)
    return decoder


def compile_sliced_decoder(
    cls: type[DeclaredMessage], version: int
) -> Callable[[Buffer, int, int], Generator[None, None, Any]]:
    """The generator function that reads this version in slices, from any buffer."""
    decoder: Callable[[Buffer, int, int], Generator[None, None, Any]] = _decoder(
        cls, version, from_bytes=False, sliced=True
    )
    return decoder


def compile_row_decoder(
    cls: type[DeclaredMessage],
    rows: Mapping[type[Declared], Row],
    version: int,
    elements_max: int | None,
    *,
    is_single: bool,
) -> Callable[[Buffer, int, int], Any]:
    """The function that reads this version into rows: a request of one element in each array, or any."""
    _check_version(cls, version)
    source = single_source(cls, rows, version) if is_single else span_source(cls, rows, version, elements_max)
    decoder: Callable[[Buffer, int, int], Any] = _run(source, "decode", f"{cls.__name__} v{version}")
    return decoder


def _encoder(cls: type[DeclaredMessage], version: int, *, sliced: bool) -> Any:
    first, last = cls.versions
    if not first <= version <= last:
        raise EncodeError(f"{cls.__name__} has versions {first} to {last}, not {version}")
    return _run(encoder_source(cls, version, sliced=sliced), "encode", f"{cls.__name__} v{version}")


def _decoder(cls: type[DeclaredMessage], version: int, *, from_bytes: bool, sliced: bool) -> Any:
    _check_version(cls, version)
    source = decoder_source(cls, version, from_bytes=from_bytes, sliced=sliced)
    return _run(source, "decode", f"{cls.__name__} v{version}")


def _check_version(cls: type[DeclaredMessage], version: int) -> None:
    first, last = cls.versions
    if not first <= version <= last:
        raise WireError(f"{cls.__name__} has versions {first} to {last}, not {version}")


def compile_constructor(cls: type[Declared]) -> Callable[..., None]:
    """The `__init__` that takes every field as a keyword argument."""
    source = Source({"ABSENT": _ABSENT})
    defaults = {name: _default(source, field) for name, field in cls.fields.items()}
    parameters = [f"{name}={'ABSENT' if made else default}" for name, (default, made) in defaults.items()]
    with source.block(f"def __init__(self, *, {', '.join([*parameters, 'unknown_tagged_fields=None'])}):"):
        for name, (default, made) in defaults.items():
            value = f"{default} if {name} is ABSENT else {name}" if made else name
            source.line(f"self.{name} = {value}")
        source.line("self.unknown_tagged_fields = unknown_tagged_fields")
    constructor: Callable[..., None] = _run(source, "__init__", cls.__name__)
    constructor.__qualname__ = f"{cls.__qualname__}.__init__"
    return constructor


def _default(source: Source, field: Field) -> tuple[str, bool]:
    """The expression of a default, and whether it must be evaluated for each object."""
    if field.kind == "array" and field.default is not None:
        return "[]", True
    if isinstance(field.element, type) and field.kind == "struct" and field.null_since == LATEST:
        return f"{source.refer(field.element.__name__, field.element)}()", True
    return repr(field.default), False


def _run(source: Source, function: str, title: str) -> Any:
    code = compile(source.text(), f"<{title} {function}>", "exec")
    exec(code, source.names)  # noqa: S102  the source is made from our own declarations
    return source.names[function]
