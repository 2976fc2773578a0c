"""Delegation tokens in the tree, in Kafka's nodes: `/delegation_token/tokens/<id>`, and nodes that announce changes.

The secret of a token is not stored: brokers compute it from the id.
"""

from collections.abc import Iterator
from typing import Any, Final

from tidelog.metadata import paths
from tidelog.metadata._json import Document, encode_json
from tidelog.metadata.changes import Announcements
from tidelog.metadata.errors import NoNodeError
from tidelog.metadata.store import Store, join_path
from tidelog.metadata.walk import create_if_missing, ensure_paths
from tidelog.security.tokens import DelegationToken

_VERSION: Final = 3


def prepare_token_nodes(store: Store) -> None:
    """Make the nodes that tokens and announcements stand under."""
    ensure_paths(store, [paths.TOKENS, paths.TOKEN_CHANGES])


def read_tokens(store: Store) -> Iterator[DelegationToken]:
    """Every token."""
    for token_id in store.children(paths.TOKENS):
        token = read_token(store, token_id)
        if token is not None:
            yield token


def read_token(store: Store, token_id: str) -> DelegationToken | None:
    """A token; None if it is gone."""
    path = join_path(paths.TOKENS, token_id)
    try:
        data, _ = store.get(path)
    except NoNodeError:
        return None
    return decode_token(path, data)


def write_token(store: Store, token: DelegationToken) -> None:
    """Write a token, new or changed, and announce it."""
    path = join_path(paths.TOKENS, token.token_id)
    if not create_if_missing(store, path, encode_token(token)):
        store.set(path, encode_token(token))
    _announce(store, token.token_id)


def remove_token(store: Store, token_id: str) -> None:
    """Remove a token and announce it. Nothing happens if another broker was faster."""
    try:
        store.delete(join_path(paths.TOKENS, token_id))
    except NoNodeError:
        return
    _announce(store, token_id)


def _announce(store: Store, token_id: str) -> None:
    store.create(join_path(paths.TOKEN_CHANGES, paths.TOKEN_CHANGE_PREFIX), token_id.encode(), sequential=True)


def encode_token(token: DelegationToken) -> bytes:
    return encode_json(
        {
            "version": _VERSION,
            "owner": token.owner,
            "tokenRequester": token.requester,
            "renewers": list(token.renewers),
            "issueTimestamp": token.issued_ms,
            "maxTimestamp": token.max_ms,
            "expiryTimestamp": token.expires_ms,
            "tokenId": token.token_id,
        }
    )


def decode_token(path: str, data: bytes) -> DelegationToken:
    document = Document(path, data)
    renewers: list[Any] = document.required("renewers", list)
    if not all(isinstance(each, str) for each in renewers):
        raise document.malformed(f"renewers is {renewers!r}, not a list of principals")
    owner = document.required("owner", str)
    return DelegationToken(
        document.required("tokenId", str),
        owner,
        document.optional("tokenRequester", str, owner),
        tuple(renewers),
        document.required("issueTimestamp", int),
        document.required("maxTimestamp", int),
        document.required("expiryTimestamp", int),
    )


def _decode_change(_path: str, data: bytes) -> str:
    return data.decode(errors="replace")


TOKEN_CHANGES: Final = Announcements(paths.TOKEN_CHANGES, paths.TOKEN_CHANGE_PREFIX, _decode_change)
"""Each names a token by its id."""
