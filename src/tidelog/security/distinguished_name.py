"""The names in a certificate: its subject as Java prints it (RFC 2253), which is what Kafka's principals and mapping
rules see, and its alternative names.

Read from the DER bytes, because the text form that `ssl` offers has lost which string type a value had.
"""

from __future__ import annotations

from typing import Final

_KEYWORDS: Final = {
    "2.5.4.3": "CN",
    "2.5.4.6": "C",
    "2.5.4.7": "L",
    "2.5.4.8": "ST",
    "2.5.4.9": "STREET",
    "2.5.4.10": "O",
    "2.5.4.11": "OU",
    "0.9.2342.19200300.100.1.1": "UID",
    "0.9.2342.19200300.100.1.25": "DC",
}
_ENCODINGS: Final = {
    12: "utf-8",  # UTF8String
    19: "ascii",  # PrintableString
    20: "latin-1",  # T61String
    22: "ascii",  # IA5String
    27: "ascii",  # GeneralString
    28: "utf-32-be",  # UniversalString
    30: "utf-16-be",  # BMPString
}
_ESCAPED: Final = frozenset(',=+<>#;"\\')
_SEQUENCE: Final = 0x30
_SET: Final = 0x31
_VERSION: Final = 0xA0
_EXTENSIONS: Final = 0xA3
_BOOLEAN: Final = 0x01
_ALTERNATIVE_NAMES: Final = bytes.fromhex("0603551d11")
"""The object identifier 2.5.29.17, with its tag."""


def subject_of(certificate: bytes) -> str:
    """The subject of a DER certificate, the last part first: `CN=broker1,OU=x,O=y`. Raises ValueError."""
    fields = _fields(certificate)
    tag, _, position = _read(fields, 0)
    if tag == _VERSION:
        _, _, position = _read(fields, position)  # the serial number behind it
    for _ in range(3):  # signature algorithm, issuer, validity
        _, _, position = _read(fields, position)
    tag, subject, _ = _read(fields, position)
    if tag != _SEQUENCE:
        raise ValueError("the certificate has no subject")
    return ",".join(reversed([_relative_name(value) for value in _elements(subject, _SET)]))


def alternative_names_of(certificate: bytes) -> frozenset[tuple[int, bytes]]:
    """The subject's alternative names of a DER certificate, each with its type. Raises ValueError."""
    fields, position = _fields(certificate), 0
    while position < len(fields):
        tag, value, position = _read(fields, position)
        if tag == _EXTENSIONS:
            _, extensions, _ = _read(value, 0)
            for extension in _elements(extensions, _SEQUENCE):
                if extension.startswith(_ALTERNATIVE_NAMES):
                    return _general_names(extension[len(_ALTERNATIVE_NAMES) :])
    return frozenset()


def _general_names(data: bytes) -> frozenset[tuple[int, bytes]]:
    tag, value, end = _read(data, 0)
    if tag == _BOOLEAN:  # whether the extension is critical
        _, value, _ = _read(data, end)
    _, names, _ = _read(value, 0)
    found, position = [], 0
    while position < len(names):
        tag, name, position = _read(names, position)
        found.append((tag, name))
    return frozenset(found)


def _fields(certificate: bytes) -> bytes:
    """The signed part."""
    _, body, _ = _read(certificate, 0)
    return _read(body, 0)[1]


def _relative_name(data: bytes) -> str:
    return "+".join([_attribute(value) for value in _elements(data, _SEQUENCE)])


def _attribute(data: bytes) -> str:
    _, oid, position = _read(data, 0)
    tag, value, end = _read(data, position)
    name = _oid_text(oid)
    keyword, encoding = _KEYWORDS.get(name), _ENCODINGS.get(tag)
    if keyword is None or encoding is None:
        return f"{keyword or name}=#{data[position:end].hex()}"
    return f"{keyword}={_escaped(value.decode(encoding, 'replace'))}"


def _escaped(text: str) -> str:
    escaped = "".join([f"\\{each}" if each in _ESCAPED else "\\00" if each == "\0" else each for each in text])
    inner = escaped.strip(" ")
    leading = len(escaped) - len(escaped.lstrip(" "))
    trailing = len(escaped) - leading - len(inner)
    return "\\ " * leading + inner + "\\ " * trailing


def _elements(data: bytes, expected_tag: int) -> list[bytes]:
    found: list[bytes] = []
    position = 0
    while position < len(data):
        tag, value, position = _read(data, position)
        if tag != expected_tag:
            raise ValueError(f"tag {tag} in a name instead of {expected_tag}")
        found.append(value)
    return found


def _read(data: bytes, position: int) -> tuple[int, bytes, int]:
    """Tag, value and end of the DER element at `position`."""
    if position + 2 > len(data):
        raise ValueError("the certificate is truncated")
    tag, size = data[position], data[position + 1]
    position += 2
    if size & 0x80:
        count = size & 0x7F
        if not 1 <= count <= 4 or position + count > len(data):
            raise ValueError("the certificate has a length that is not DER")
        size = int.from_bytes(data[position : position + count], "big")
        position += count
    if position + size > len(data):
        raise ValueError("the certificate is truncated")
    return tag, data[position : position + size], position + size


def _oid_text(data: bytes) -> str:
    numbers: list[int] = []
    number = 0
    for byte in data:
        number = number << 7 | byte & 0x7F
        if not byte & 0x80:
            numbers.append(number)
            number = 0
    if not numbers:
        raise ValueError("the certificate has an empty object identifier")
    first = min(numbers[0] // 40, 2)
    return ".".join(map(str, (first, numbers[0] - 40 * first, *numbers[1:])))
