"""The cluster id, and generated broker ids for brokers without `broker.id`. Used once, at start."""

import os
from collections.abc import Callable

from tidelog.metadata import paths
from tidelog.metadata.errors import NoNodeError
from tidelog.metadata.store import Store
from tidelog.metadata.tree import decode_cluster_id, encode_cluster_id
from tidelog.metadata.uuids import random_uuid
from tidelog.metadata.walk import create_if_missing, ensure_paths
from tidelog.wire.primitives import uuid_to_text


def get_cluster_id(store: Store) -> str | None:
    """The cluster's id, None in a tree that has none yet."""
    try:
        return decode_cluster_id(store.get(paths.CLUSTER_ID)[0])
    except NoNodeError:
        return None


def get_or_create_cluster_id(
    store: Store, *, adopt: str | None = None, random_bytes: Callable[[int], bytes] = os.urandom
) -> str:
    """The cluster id, 22 characters. The first broker to start generates it, or takes it over from its data."""
    known = get_cluster_id(store)
    if known is not None:
        return known
    new_id = uuid_to_text(random_uuid(random_bytes)) if adopt is None else adopt
    ensure_paths(store, ["/cluster"])
    # Of two brokers that start at once one comes first, and both read what it wrote.
    create_if_missing(store, paths.CLUSTER_ID, encode_cluster_id(new_id))
    return decode_cluster_id(store.get(paths.CLUSTER_ID)[0])


def generate_broker_id(store: Store, reserved_max_id: int) -> int:
    """A broker id that was never given out, above `reserved.broker.max.id`.

    Each write to the sequence node raises its version, so each writer gets another one.
    """
    ensure_paths(store, [paths.BROKER_SEQUENCE])
    return reserved_max_id + store.set(paths.BROKER_SEQUENCE, b"").version
