"""Request and response frames, and the exceptions in their headers."""

import pytest

from tests.compat.wire.samples import all_messages
from tidelog.wire.api_keys import ApiKey
from tidelog.wire.errors import WireError
from tidelog.wire.frames import (
    CLIENT_ID_BYTES_MAX,
    RequestHeader,
    encode_request,
    encode_response,
    flexible_from,
    parse_request_header,
    response_body_offset,
)
from tidelog.wire.primitives import encode_uvarint
from tidelog.wire.schema import LATEST


def test_frames_and_messages_agree_which_versions_are_flexible() -> None:
    for cls in all_messages():
        assert flexible_from(cls.api_key) == cls.flexible_from, cls.__name__
    assert flexible_from(ApiKey.SASL_HANDSHAKE) == LATEST


def test_a_request_of_an_older_version() -> None:
    frame = encode_request(ApiKey.METADATA, 8, 7, "me", b"body")
    assert frame.hex(" ") == "00 00 00 10 00 03 00 08 00 00 00 07 00 02 6d 65 62 6f 64 79"
    assert parse_request_header(frame, 4) == RequestHeader(3, 8, 7, "me", 16)


def test_a_request_of_a_flexible_version_has_tags_in_its_header() -> None:
    frame = encode_request(ApiKey.METADATA, 9, -1, "me", b"body")
    assert frame.hex(" ") == "00 00 00 11 00 03 00 09 ff ff ff ff 00 02 6d 65 00 62 6f 64 79"
    assert parse_request_header(frame, 4) == RequestHeader(3, 9, -1, "me", 17)


def test_the_client_id_may_be_null() -> None:
    frame = encode_request(ApiKey.METADATA, 9, 1, None, b"body")
    assert parse_request_header(frame, 4) == RequestHeader(3, 9, 1, None, 15)


def test_tags_of_a_request_header_are_passed_over() -> None:
    header = bytes.fromhex("0003 0009 00000001 ffff 02 00 03 616263 ff01 00")
    assert parse_request_header(header + b"body").body_offset == len(header)


@pytest.mark.parametrize("count", [65, 49_000_000])
def test_a_header_of_more_tags_than_any_client_sends_is_refused(count: int) -> None:
    """The tags of a header have no use here, and 49 million of them fit into one request."""
    tags = encode_uvarint(count) + b"\x01\x00" * min(count, 1000)
    with pytest.raises(WireError, match="tagged fields"):
        parse_request_header(bytes.fromhex("0003 0009 00000001 ffff") + tags)


def test_a_long_client_id_is_cut_within_a_character() -> None:
    """Member ids begin with the client id; one of 32,767 bytes would not fit into a string."""
    frame = encode_request(ApiKey.METADATA, 8, 7, "é" * 16_000, b"body")
    header = parse_request_header(frame, 4)
    assert header.client_id == "é" * (CLIENT_ID_BYTES_MAX // 2)
    assert header.body_offset == len(frame) - 4
    odd = parse_request_header(encode_request(ApiKey.METADATA, 8, 7, "a" + "é" * 16_000, b""), 4)
    assert odd.client_id == "a" + "é" * (CLIENT_ID_BYTES_MAX // 2 - 1)


def test_controlled_shutdown_v0_has_no_client_id() -> None:
    frame = encode_request(ApiKey.CONTROLLED_SHUTDOWN, 0, 5, "ignored", b"")
    assert frame.hex(" ") == "00 00 00 08 00 07 00 00 00 00 00 05"
    assert parse_request_header(frame, 4) == RequestHeader(7, 0, 5, None, 12)
    with_body = encode_request(ApiKey.CONTROLLED_SHUTDOWN, 0, 5, None, b"\0\0\0\1")
    assert parse_request_header(with_body, 4) == RequestHeader(7, 0, 5, None, 12)
    later = encode_request(ApiKey.CONTROLLED_SHUTDOWN, 1, 5, "me", b"")
    assert parse_request_header(later, 4).client_id == "me"


@pytest.mark.parametrize(("api_key", "version"), [(999, 3), (-5, 0), (ApiKey.API_VERSIONS, 99)])
def test_unknown_keys_and_versions_are_for_the_caller_to_answer(api_key: int, version: int) -> None:
    header = parse_request_header(encode_request(api_key, version, 1, "me", b""), 4)
    assert (header.api_key, header.api_version, header.client_id) == (api_key, version, "me")


@pytest.mark.parametrize(
    ("header", "complaint"),
    [
        ("", "0 bytes is shorter"),
        ("0003 0009 0000", "shorter than its header"),
        ("0003 0001 00000001 00", "shorter than its header"),
        ("0003 0001 00000001 0005 6d65", "client id of 5 bytes"),
        ("0003 0001 00000001 0002 ffff", "not UTF-8"),
        ("0003 0009 00000001 ffff", "varint"),
        ("0003 0009 00000001 ffff 01 00 05 61", "tagged fields of the header"),
        ("0003 0009 00000001 ffff ffffffff07", "tagged fields"),
    ],
)
def test_malformed_headers_are_refused(header: str, complaint: str) -> None:
    with pytest.raises(WireError, match=complaint):
        parse_request_header(bytes.fromhex(header))


def test_a_response_of_an_older_and_of_a_flexible_version() -> None:
    assert encode_response(ApiKey.METADATA, 8, 7, b"body").hex(" ") == "00 00 00 08 00 00 00 07 62 6f 64 79"
    assert encode_response(ApiKey.METADATA, 9, 7, b"body").hex(" ") == "00 00 00 09 00 00 00 07 00 62 6f 64 79"


@pytest.mark.parametrize("version", [0, 3, 4])
def test_an_api_versions_response_never_has_tags_in_its_header(version: int) -> None:
    """A client that asked in a version we do not know must find the error code where version 0 has it."""
    frame = encode_response(ApiKey.API_VERSIONS, version, 7, b"body")
    assert frame == b"\0\0\0\x08\0\0\0\x07body"
    assert response_body_offset(ApiKey.API_VERSIONS, version, frame, 4) == 8


def test_the_body_of_a_response_is_found_behind_its_tags() -> None:
    assert response_body_offset(ApiKey.METADATA, 8, b"\0\0\0\7body") == 4
    assert response_body_offset(ApiKey.METADATA, 9, b"\0\0\0\7\0body") == 5
    assert response_body_offset(ApiKey.METADATA, 9, b"\0\0\0\7\1\5\2xybody") == 9
    with pytest.raises(WireError, match="shorter than its header"):
        response_body_offset(ApiKey.METADATA, 8, b"\0\0\0")


def test_a_body_may_be_a_view() -> None:
    assert encode_response(ApiKey.METADATA, 8, 7, memoryview(b"body")) == encode_response(
        ApiKey.METADATA, 8, 7, b"body"
    )
