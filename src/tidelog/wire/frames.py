"""Frames: the length, the header and the body of every request and response.

    request    length int32 | api_key int16 | api_version int16 | correlation_id int32 | client_id string | tags | body
    response   length int32 | correlation_id int32 | tags | body

Only the headers of flexible versions have tags. There are two exceptions: version 0 of ControlledShutdown has no client
id, and the header of an ApiVersions response never has tags, so that a client that sent an unsupported version can
still read the response.

The connection calls `parse_request_header` and `encode_response` once per request; the client uses the other two.
"""

from struct import Struct
from struct import error as struct_error
from typing import Final, NamedTuple

from tidelog.wire.api_keys import ApiKey
from tidelog.wire.errors import WireError
from tidelog.wire.primitives import Buffer, encode_string, skip_tagged_fields

NEVER_FLEXIBLE: Final = 0x7FFF
"""A version that no message reaches."""

CLIENT_ID_BYTES_MAX: Final = 1024
"""Longer client ids are cut: member ids begin with them, and must fit into a string of 32,767 bytes themselves."""

# The first version of each API whose header and body are flexible, by API key. Messages declare the same; a frame must
# be parsed before its message is loaded, so the numbers are here too, and a test compares the two.
_FLEXIBLE_FROM: Final = (
    *(9, 12, 6, 9, 4, 2, 6, 3, 8, 6),  # 0 to 9
    *(3, 6, 4, 4, 4, 5, 3, NEVER_FLEXIBLE, 3, 5),  # 10 to 19
    *(4, 2, 2, 4, 3, 3, 3, 1, 3, 2),  # 20 to 29
    *(2, 2, 4, 2, 2, 2, 2, 2, 2, 2),  # 30 to 39
    *(2, 2, 2, 2, 1, 0, 0, NEVER_FLEXIBLE, 1, 1),  # 40 to 49
    *(0, 0, 0, 1, 1, 0, 0, 0, 0, 0),  # 50 to 59
)

_REQUEST_PREFIX: Final = Struct(">hhih")
_REQUEST_PREFIX_V0: Final = Struct(">hhi")
_REQUEST_START: Final = Struct(">ihhi")
_RESPONSE_START: Final = Struct(">ii")
_RESPONSE_START_FLEXIBLE: Final = Struct(">iix")

_parse_prefix: Final = _REQUEST_PREFIX.unpack_from

_API_VERSIONS: Final = int(ApiKey.API_VERSIONS)
_CONTROLLED_SHUTDOWN: Final = int(ApiKey.CONTROLLED_SHUTDOWN)


class RequestHeader(NamedTuple):
    """The header of a request, and where its body begins."""

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None
    body_offset: int


def flexible_from(api_key: int) -> int:
    """The first flexible version of an API. Every API newer than the table has been flexible from its start."""
    return _FLEXIBLE_FROM[api_key] if 0 <= api_key < 60 else 0


def parse_request_header(buffer: Buffer, offset: int = 0) -> RequestHeader:
    """The header of the request whose bytes, without the length, begin at `offset`.

    An unknown API key or version is not an error here: the caller responds to it.
    """
    try:
        api_key, api_version, correlation_id, client_id_bytes = _parse_prefix(buffer, offset)
    except struct_error:
        return _parse_shortest(buffer, offset)
    if api_key == _CONTROLLED_SHUTDOWN and api_version == 0:
        return RequestHeader(api_key, api_version, correlation_id, None, offset + 8)
    position = offset + 10
    client_id: str | None = None
    if client_id_bytes >= 0:
        end = position + client_id_bytes
        if end > len(buffer):
            raise WireError(f"client id of {client_id_bytes} bytes ends beyond the request")
        if client_id_bytes > CLIENT_ID_BYTES_MAX:
            client_id = str(buffer[position : position + CLIENT_ID_BYTES_MAX], "utf-8", "ignore")
        else:
            try:
                client_id = str(buffer[position:end], "utf-8")
            except UnicodeDecodeError as error:
                raise WireError(f"client id is not UTF-8: {error.reason}") from None
        position = end
    if api_version >= (_FLEXIBLE_FROM[api_key] if 0 <= api_key < 60 else 0):
        position = _skip_tags(buffer, position)
    return RequestHeader(api_key, api_version, correlation_id, client_id, position)


def _parse_shortest(buffer: Buffer, offset: int) -> RequestHeader:
    """A header too short for a client id: ControlledShutdown version 0, or malformed."""
    if len(buffer) - offset >= 8:
        api_key, api_version, correlation_id = _REQUEST_PREFIX_V0.unpack_from(buffer, offset)
        if api_key == _CONTROLLED_SHUTDOWN and api_version == 0:
            return RequestHeader(api_key, api_version, correlation_id, None, offset + 8)
    raise WireError(f"request of {len(buffer) - offset} bytes is shorter than its header")


def _skip_tags(buffer: Buffer, position: int) -> int:
    """The position after the tagged fields of a header. None are defined, so all are skipped."""
    position = skip_tagged_fields(buffer, position, len(buffer))
    if position > len(buffer):
        raise WireError("tagged fields of the header end beyond the request")
    return position


def encode_request(api_key: int, version: int, correlation_id: int, client_id: str | None, body: Buffer) -> bytes:
    """A whole request frame."""
    if api_key == _CONTROLLED_SHUTDOWN and version == 0:
        return _REQUEST_START.pack(8 + len(body), api_key, version, correlation_id) + body
    rest = encode_string(client_id)
    if version >= flexible_from(api_key):
        rest += b"\0"
    return _REQUEST_START.pack(8 + len(rest) + len(body), api_key, version, correlation_id) + rest + body


def encode_response(api_key: int, version: int, correlation_id: int, body: Buffer) -> bytes:
    """A whole response frame."""
    if version >= flexible_from(api_key) and api_key != _API_VERSIONS:
        return _RESPONSE_START_FLEXIBLE.pack(5 + len(body), correlation_id) + body
    return _RESPONSE_START.pack(4 + len(body), correlation_id) + body


def response_body_offset(api_key: int, version: int, buffer: Buffer, offset: int = 0) -> int:
    """Where the body begins in the response whose bytes, without the length, begin at `offset`."""
    if len(buffer) - offset < 4:
        raise WireError(f"response of {len(buffer) - offset} bytes is shorter than its header")
    if version >= flexible_from(api_key) and api_key != _API_VERSIONS:
        return _skip_tags(buffer, offset + 4)
    return offset + 4
