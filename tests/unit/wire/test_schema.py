"""Declared messages: constructors, versions, nulls, tags, and what is refused."""

import copy
from typing import Any

import pytest

from tidelog.wire.errors import EncodeError, ErrorCode, WireError
from tidelog.wire.primitives import NO_UUID, TAGGED_FIELDS_MAX
from tidelog.wire.schema import (
    Message,
    Struct,
    array,
    blob,
    boolean,
    float64,
    int8,
    int16,
    int32,
    int64,
    record_batches,
    string,
    struct,
    uint16,
    uuid,
)


class Inner(Struct):
    number: int = int32(-1)
    late: int = int16(7, since=2)


class Sample(Message, api_key=99, versions=(0, 3), flexible_from=2):
    code: int = int16()
    name: str | None = string(null_since=1)
    dropped: int = int64(5, until=0)
    inners: list[Inner] = array(Inner)
    numbers: list[int] | None = array(int32, null_since=1)
    texts: list[str] = array(string, since=1)
    ids: list[bytes] = array(uuid, since=3)
    topic_id: bytes = uuid(since=1)
    payload: bytes = blob(since=1)
    batches: bytes | None = record_batches(since=1)
    flag: bool = boolean(since=1)
    port: int = uint16(since=1)
    ratio: float = float64(since=1)
    cursor: Inner | None = struct(Inner, since=3, null_since=3)
    place: Inner = struct(Inner, since=3)
    tagged: int = int8(3, since=2, tag=0)
    tagged_name: str | None = string(None, since=2, null_since=2, tag=1)
    tagged_place: Inner = struct(Inner, since=2, tag=4)
    tagged_list: list[int] = array(int32, since=3, tag=5)


def test_every_field_has_a_default() -> None:
    sample = Sample()
    assert (sample.code, sample.name, sample.dropped, sample.inners) == (0, "", 5, [])
    assert (sample.topic_id, sample.batches, sample.cursor) == (NO_UUID, None, None)
    assert sample.place == Inner(number=-1, late=7)
    assert (sample.tagged, sample.tagged_name, sample.tagged_list) == (3, None, [])


def test_objects_do_not_share_defaults() -> None:
    first, second = Sample(), Sample()
    first.inners.append(Inner())
    first.place.number = 9
    assert second == Sample()


def test_fields_are_plain_attributes() -> None:
    sample = Sample(code=3)
    sample.code = 4
    assert sample.code == 4
    with pytest.raises(AttributeError):
        sample.unheard_of = 1  # type: ignore[attr-defined]
    assert not hasattr(sample, "__dict__")


def test_a_constructor_takes_declared_fields_by_keyword_only() -> None:
    with pytest.raises(TypeError, match="unheard_of"):
        Sample(unheard_of=1)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="positional"):
        Sample(1)  # type: ignore[misc, arg-type]


def test_equality_is_by_value() -> None:
    assert Sample(inners=[Inner(number=1)]) == Sample(inners=[Inner(number=1)])
    assert Sample(inners=[Inner(number=1)]) != Sample(inners=[Inner(number=2)])
    assert Sample(unknown_tagged_fields={9: b"x"}) != Sample()
    assert Sample(unknown_tagged_fields={}) == Sample()
    assert Inner() != Sample()
    with pytest.raises(TypeError, match="unhashable"):
        hash(Sample())


def test_the_representation_names_the_fields() -> None:
    assert repr(Inner(number=1)) == "Inner(number=1, late=7)"
    assert repr(Inner(unknown_tagged_fields={3: b"x"})) == "Inner(number=-1, late=7, unknown_tagged_fields={3: b'x'})"


def test_objects_can_be_copied() -> None:
    sample = Sample(inners=[Inner(number=1)])
    assert copy.deepcopy(sample) == sample


def test_class_attributes_say_what_the_message_is() -> None:
    assert (Sample.api_key, Sample.versions, Sample.flexible_from) == (99, (0, 3), 2)


def test_bytes_of_an_older_version() -> None:
    sample = Sample(code=1, name="ab", dropped=2, inners=[Inner(number=3)], numbers=[4, 5])
    expected = "0001 0002 6162 0000000000000002 00000001 00000003 00000002 00000004 00000005"
    assert sample.encode(0) == bytes.fromhex(expected)
    assert Sample.decode(sample.encode(0), 0) == sample


def test_bytes_of_a_flexible_version() -> None:
    sample = Sample(name="ab", inners=[Inner(number=3)], numbers=[4], tagged=8, tagged_place=Inner(number=1, late=2))
    expected = (
        # code, name, one inner with its tags, one number, no texts, topic id, payload, batches, flag, port and ratio
        f"0000 036162 02 00000003 0007 00 02 00000004 01 {'00' * 16} 01 00 00 0000 {'00' * 8}",
        # two tagged fields: number, size and value of each
        "02 00 01 08 04 07 00000001 0002 00",
    )
    assert sample.encode(2) == bytes.fromhex("".join(expected))
    assert Sample.decode(sample.encode(2), 2) == sample


def test_a_field_that_the_version_lacks_is_left_out_and_reads_as_its_default() -> None:
    sample = Sample(dropped=77, texts=["x"], flag=True, tagged=9)
    assert Sample.decode(sample.encode(0), 0) == Sample(dropped=77)
    assert Sample.decode(sample.encode(1), 1) == Sample(texts=["x"], flag=True)


@pytest.mark.parametrize("version", [1, 2, 3])
def test_nulls_come_back(version: int) -> None:
    sample = Sample(name=None, numbers=None, batches=None, cursor=None)
    assert Sample.decode(sample.encode(version), version) == sample


@pytest.mark.parametrize("values", [{"name": None}, {"numbers": None}, {"inners": None}])
def test_a_null_that_the_version_cannot_carry_is_our_mistake(values: dict[str, Any]) -> None:
    with pytest.raises(EncodeError, match="Sample v0"):
        Sample(**values).encode(0)


@pytest.mark.parametrize(
    "values",
    [
        {"code": 1 << 15},
        {"code": "text"},
        {"name": 5},
        {"name": "x" * 32768},
        {"name": "\ud800"},
        {"inners": [5]},
        {"numbers": ["a"]},
        {"topic_id": b"short"},
        {"ids": [bytes(17)]},
        {"port": -1},
        {"payload": None},
        {"ratio": 10**400},
    ],
)
def test_values_that_do_not_fit_are_our_mistake(values: dict[str, Any]) -> None:
    with pytest.raises(EncodeError):
        Sample(**values).encode(3)


def test_error_codes_and_views_are_written_like_numbers_and_bytes() -> None:
    sample = Sample(code=ErrorCode.INVALID_REQUEST, payload=memoryview(b"abc"), batches=bytearray(b"xyz"))  # type: ignore[arg-type]
    assert Sample.decode(sample.encode(3), 3) == Sample(code=42, payload=b"abc", batches=b"xyz")


def test_records_are_a_slice_of_the_buffer_and_blobs_a_copy() -> None:
    encoded = Sample(payload=b"abc", batches=b"xyz").encode(3)
    sample = Sample.decode(memoryview(encoded), 3)
    assert isinstance(sample.batches, memoryview)
    assert sample.batches.obj is encoded
    assert type(sample.payload) is bytes


@pytest.mark.parametrize("size", [0, 1, 8, 9, 10, 126, 127, 128, 600])
@pytest.mark.parametrize("version", [0, 1, 2, 3])
def test_lengths_of_every_size(size: int, version: int) -> None:
    """Around the borders where numbers are no longer read by a table, and where varints become longer."""
    sample = Sample(name="n" * size, numbers=list(range(size)), inners=[Inner()] * size)
    if version:
        sample.texts = ["t"] * size
        sample.payload = b"p" * size
    if version == 3:
        sample.ids = [bytes([1] * 16)] * size
        sample.tagged_list = list(range(size))
    encoded = sample.encode(version)
    assert Sample.decode(encoded, version) == sample
    assert Sample.decode(bytearray(encoded), version) == sample


def test_unknown_tagged_fields_are_kept_and_written_back_in_order() -> None:
    sample = Sample(tagged=8, tagged_place=Inner(number=1), unknown_tagged_fields={9: b"nine", 3: b"", 300: b"x" * 200})
    sample.inners = [Inner(unknown_tagged_fields={0: b"zero"})]
    encoded = sample.encode(3)
    assert Sample.decode(encoded, 3) == sample
    assert Sample.decode(memoryview(encoded), 3).encode(3) == encoded
    assert [encoded.index(piece) for piece in (b"zero", b"nine", b"xxx")] == sorted(
        encoded.index(piece) for piece in (b"zero", b"nine", b"xxx")
    )


def test_more_unknown_tags_than_any_client_sends_are_refused() -> None:
    """A few come from newer clients. A million of two bytes each would be a million objects for nothing."""
    sample = Sample(unknown_tagged_fields=dict.fromkeys(range(10, 10 + TAGGED_FIELDS_MAX), b""))
    assert Sample.decode(sample.encode(3), 3) == sample
    sample.unknown_tagged_fields[9] = b""  # type: ignore[index]
    with pytest.raises(WireError, match="65 tagged fields"):
        Sample.decode(sample.encode(3), 3)


def test_tags_of_a_later_version_are_unknown_to_an_earlier_one() -> None:
    encoded = bytearray(Sample().encode(2))
    assert encoded[-1] == 0
    encoded[-1:] = b"\1\5\2\2\0"
    assert Sample.decode(bytes(encoded), 2).unknown_tagged_fields == {5: b"\2\0"}


def test_older_versions_do_not_write_unknown_tags() -> None:
    assert Sample(unknown_tagged_fields={9: b"x"}).encode(1) == Sample().encode(1)


@pytest.mark.parametrize(
    "tags",
    [
        "01",  # a tag is promised
        "01 00",  # a size is promised
        "01 00 02 08",  # a byte is missing
        "01 00 02 08 00",  # the field has one byte, the size says two
        "01 00 00",  # the size leaves no room for the field
        "01 09 05 00",  # an unknown field ends beyond the buffer
        "ff ff ff ff 07",  # more tags than bytes
        "ff ff ff ff ff",  # not a varint
        "01 01 02 02 ff",  # the name is not UTF-8
    ],
)
def test_malformed_tagged_fields_are_refused(tags: str) -> None:
    encoded = Sample().encode(3)
    with pytest.raises(WireError):
        Sample.decode(encoded[:-1] + bytes.fromhex(tags), 3)


@pytest.mark.parametrize(
    ("encoded", "complaint"),
    [
        ("", "Sample v0 cannot be read"),
        ("0001 0005 6162", "Sample v0"),
        ("0001 ffff", "name may not be null in version 0"),
        ("0001 0001 ff", "Sample v0 cannot be read"),
        ("0001 0000 0000000000000000 7fffffff", "2147483647 inners cannot be in 0 bytes"),
        ("0001 0000 0000000000000000 ffffffff", "inners may not be null"),
        ("0001 0000 0000000000000000 00000000 00000002 00000000", "2 numbers cannot be in 4 bytes"),
    ],
)
def test_malformed_bytes_are_refused(encoded: str, complaint: str) -> None:
    with pytest.raises(WireError, match=complaint):
        Sample.decode(bytes.fromhex(encoded), 0)


def test_what_follows_a_message_is_left_alone() -> None:
    encoded = Sample(name="ab").encode(0)
    assert Sample.decode(b"???" + encoded + b"???", 0, 3) == Sample(name="ab")


@pytest.mark.parametrize("version", [-1, 4])
def test_there_are_only_the_declared_versions(version: int) -> None:
    with pytest.raises(EncodeError, match=f"versions 0 to 3, not {version}"):
        Sample().encode(version)
    with pytest.raises(WireError, match=f"versions 0 to 3, not {version}"):
        Sample.decode(b"", version)


def test_codecs_and_constructors_are_compiled_when_first_needed() -> None:
    class Fresh(Message, api_key=98, versions=(0, 1)):
        number: int = int32()

    assert "__init__" not in vars(Fresh)
    assert (Fresh._encoders, Fresh._bytes_decoders, Fresh._view_decoders) == ({}, {}, {})
    encoded = Fresh(number=1).encode(1)
    Fresh.decode(encoded, 1)
    assert "__init__" in vars(Fresh)
    assert (set(Fresh._encoders), set(Fresh._bytes_decoders), set(Fresh._view_decoders)) == ({1}, {1}, set())
    Fresh.decode(memoryview(encoded), 1)
    assert set(Fresh._view_decoders) == {1}
