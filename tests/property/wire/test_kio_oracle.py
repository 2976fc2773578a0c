"""Random values of every message and version that kio knows, from us to kio and from kio to us."""

import io
from typing import Any

import pytest
from hypothesis import given
from kio.serial import entity_reader, entity_writer

from tests.compat.wire.samples import all_versions
from tests.property.wire.kio_oracle import kio_class, restrictions, to_kio
from tests.property.wire.values import QUICK, objects
from tidelog.wire.schema import Message

_KNOWN = [(cls, version) for cls, version in all_versions() if kio_class(cls, version) is not None]


def test_kio_knows_most_versions() -> None:
    """Should kio drop more of them, `golden.txt` still holds all; this says that the oracle has not gone silent."""
    assert len(_KNOWN) > 400


@pytest.mark.parametrize(
    ("cls", "version"), _KNOWN, ids=lambda value: value if isinstance(value, int) else value.__name__
)
def test_we_and_kio_read_what_the_other_writes(cls: type[Message], version: int) -> None:
    kio_cls = kio_class(cls, version)
    read, write = entity_reader(kio_cls), entity_writer(kio_cls)

    @QUICK
    @given(objects(cls, version, restrictions(cls, kio_cls, version)))
    def check(ours: Any) -> None:
        theirs = to_kio(ours, kio_cls, version)
        encoded = ours.encode(version)
        with io.BytesIO() as buffer:
            write(buffer, theirs)
            assert buffer.getvalue() == encoded
        assert read(encoded, 0) == (theirs, len(encoded))
        assert cls.decode(encoded, version) == ours
        assert cls.decode(memoryview(encoded), version) == ours

    check()
