"""Every message and version against the bytes of Apache Kafka 3.9.1, including those that no client speaks any more.

APIs that 3.9.1 lacks, those of share groups and later ones, are compared with 4.4.0.

`golden.txt` holds what Kafka's own serializer made of the objects of `samples`; `make_golden.py` says how.
"""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.compat.wire.samples import all_messages, all_versions, filled, sparse
from tidelog.wire.schema import Message

_SAMPLES: dict[str, Callable[[type[Message], int], Message]] = {"filled": filled, "sparse": sparse}
_MESSAGES = list(all_messages())
_LATER = {68: 1, 69: 1}
"""From which version on Kafka 3.9.1 has none, by API: later clients of consumer groups (KIP-848) ask for them."""


def _versions(cls: type[Message]) -> range:
    """Those that there are golden bytes of."""
    first, last = cls.versions
    return range(first, min(last + 1, _LATER.get(cls.api_key, last + 1)))


def _golden() -> dict[tuple[str, int, str], bytes]:
    found = {}
    for line in (Path(__file__).parent / "golden.txt").read_text().splitlines():
        # An empty body, such as that of ListGroupsRequest v0, leaves nothing after the third word.
        name, version, sample, *encoded = line.split()
        found[name, int(version), sample] = bytes.fromhex("".join(encoded))
    return found


_GOLDEN = _golden()


def test_every_version_of_every_message_has_golden_bytes() -> None:
    ours = {
        (cls.__name__, version, sample)
        for cls, version in all_versions()
        for sample in _SAMPLES
        if version in _versions(cls)
    }
    assert ours == set(_GOLDEN)


@pytest.mark.parametrize("cls", _MESSAGES, ids=lambda cls: cls.__name__)
def test_what_kafka_writes_is_what_we_write(cls: type[Message]) -> None:
    for version in _versions(cls):
        for sample, make in _SAMPLES.items():
            expected = _GOLDEN[cls.__name__, version, sample]
            assert make(cls, version).encode(version).hex() == expected.hex(), f"v{version} {sample}"


@pytest.mark.parametrize("cls", _MESSAGES, ids=lambda cls: cls.__name__)
def test_what_kafka_writes_is_what_we_read(cls: type[Message]) -> None:
    """From bytes and from a view, in the middle of a buffer, with bytes of another message behind it."""
    for version in _versions(cls):
        for sample, make in _SAMPLES.items():
            golden = b"before" + _GOLDEN[cls.__name__, version, sample] + b"behind"
            expected = make(cls, version)
            assert cls.decode(golden, version, 6) == expected, f"v{version} {sample}"
            assert cls.decode(memoryview(golden), version, 6) == expected, f"v{version} {sample}"
