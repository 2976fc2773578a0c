"""Hostile certificates and rules: an answer or the declared error, nothing else."""

import contextlib

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.property.effort import examples
from tidelog.config import ConfigError
from tidelog.security.distinguished_name import subject_of
from tidelog.security.principal_mapping import PrincipalMapping


def der(tag: int, parts: list[bytes]) -> bytes:
    body = b"".join(parts)
    return bytes([tag]) + (bytes([len(body)]) if len(body) < 128 else b"\x82" + len(body).to_bytes(2, "big")) + body


tags = st.sampled_from([0x30, 0x31, 0xA0, 0x02, 0x06, 0x0C, 0x13])
elements = st.recursive(
    st.binary(max_size=12),
    lambda inner: st.builds(
        der, st.sampled_from([0x30, 0x31, 0xA0, 0x02, 0x06, 0x0C, 0x13]), st.lists(inner, max_size=7)
    ),
    max_leaves=20,
)


@settings(deadline=None, max_examples=examples(600))
@given(st.one_of(st.binary(max_size=60), elements))
def test_any_bytes_are_a_name_or_refused(data: bytes) -> None:
    with contextlib.suppress(ValueError):
        assert isinstance(subject_of(data), str)


@settings(deadline=None, max_examples=examples(600))
@given(
    st.one_of(st.text(max_size=30), st.text("RULE:DFAT()/\\$,.*?[]^0123LU ", max_size=30)),
    st.text("CNOU=,. abc\\", max_size=20),
)
def test_any_rules_are_applied_or_refused(rules: str, name: str) -> None:
    with contextlib.suppress(ConfigError):
        mapped = PrincipalMapping(rules).user_of(name)
        assert mapped is None or isinstance(mapped, str)
