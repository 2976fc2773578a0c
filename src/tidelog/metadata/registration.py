"""A broker's first steps in the tree: the roots, its own registration, the election of the controller.

The start-up sequence calls these in this order.
"""

from typing import NamedTuple

from tidelog.metadata import paths
from tidelog.metadata.errors import BadVersionError, NodeExistsError, NoNodeError, StoreError
from tidelog.metadata.store import Create, Set, Store
from tidelog.metadata.tree import (
    BrokerRegistration,
    decode_controller,
    decode_controller_epoch,
    encode_broker,
    encode_controller,
    encode_controller_epoch,
)
from tidelog.metadata.walk import create_if_missing, ensure_paths


class BrokerIdTakenError(StoreError):
    """Another broker is registered under our id."""


class Controllership(NamedTuple):
    """Who is controller, and since which epoch."""

    broker_id: int
    epoch: int


def prepare_tree(store: Store) -> None:
    """Make the persistent nodes that everything else stands on."""
    ensure_paths(store, paths.PERSISTENT_ROOTS)


def register_broker(store: Store, registration: BrokerRegistration) -> int:
    """Make the broker's ephemeral node; return the broker epoch, which grows from one life to the next."""
    path = paths.broker(registration.broker_id)
    try:
        store.create(path, encode_broker(registration), ephemeral=True)
    except NodeExistsError:
        owner = store.get(path)[1].ephemeral_owner
        if owner != store.session_id:
            raise BrokerIdTakenError(
                f"broker.id {registration.broker_id} is taken: a broker with this id is registered (session {owner:#x})"
            ) from None
        store.set(path, encode_broker(registration))
    return store.get(path)[1].czxid


def elect_controller(store: Store, broker_id: int, now_ms: int) -> Controllership:
    """Become controller if nobody is; return who is.

    The node and the raised epoch come together or not at all. A controller that lost its session without noticing keeps
    sending requests with the old epoch, and is refused.
    """
    create_if_missing(store, paths.CONTROLLER_EPOCH, encode_controller_epoch(0))
    while True:
        try:
            incumbent = decode_controller(store.get(paths.CONTROLLER)[0])
        except NoNodeError:
            data, stat = store.get(paths.CONTROLLER_EPOCH)
            epoch = decode_controller_epoch(data) + 1
            try:
                store.multi(
                    [
                        Create(paths.CONTROLLER, encode_controller(broker_id, now_ms), ephemeral=True),
                        Set(paths.CONTROLLER_EPOCH, encode_controller_epoch(epoch), stat.version),
                    ]
                )
            except (NodeExistsError, BadVersionError):
                continue  # another broker was faster
            return Controllership(broker_id, epoch)
        return Controllership(incumbent, decode_controller_epoch(store.get(paths.CONTROLLER_EPOCH)[0]))
