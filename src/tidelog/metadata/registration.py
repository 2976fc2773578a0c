"""A broker's first steps in the tree: the roots, its own registration, the election of the controller.

The start-up sequence calls these in this order.
"""

from typing import Final, NamedTuple

from tidelog.metadata import paths
from tidelog.metadata.errors import BadVersionError, NodeExistsError, NoNodeError, StoreError
from tidelog.metadata.store import Create, Set, Stat, Store
from tidelog.metadata.tree import (
    BrokerRegistration,
    decode_controller,
    decode_controller_epoch,
    encode_broker,
    encode_controller,
    encode_controller_epoch,
)
from tidelog.metadata.walk import create_if_missing, ensure_paths

NO_SESSION: Final = 0


class BrokerIdTakenError(StoreError):
    """Another broker is registered under our id."""

    def __init__(self, broker_id: int, owner: int) -> None:
        super().__init__(
            f"broker.id {broker_id} is taken: a broker with this id is registered (session {owner:#x}). If it is this "
            "one, which was killed, start it again when zookeeper.session.timeout.ms has passed"
        )


class Controllership(NamedTuple):
    """Who is controller, and since which epoch."""

    broker_id: int
    epoch: int


def prepare_tree(store: Store) -> None:
    """Make the persistent nodes that everything else stands on."""
    ensure_paths(store, paths.PERSISTENT_ROOTS)


def register_broker(store: Store, registration: BrokerRegistration, previous_session_id: int = NO_SESSION) -> int:
    """Make the broker's ephemeral node; return the broker epoch, which grows from one life to the next.

    If the node is there already, by the session it is in one of three cases. It is ours, made by a call whose reply was
    lost or to be changed: it is given the data. It is of `previous_session_id`, our own before this one, and ZooKeeper
    is late to remove it, or fails to (ZOOKEEPER-2985): it is removed and made again. It is of another broker, or of an
    earlier life of this one: that raises `BrokerIdTakenError`.
    """
    path = paths.broker(registration.broker_id)
    data = encode_broker(registration)
    while True:
        try:
            _, stat = store.multi([Create(path, ephemeral=True), Set(path, data, 0)])
            assert isinstance(stat, Stat), f"the registration was written and its version is {stat!r}"
            return stat.czxid
        except NodeExistsError:
            try:
                owner = store.get(path)[1].ephemeral_owner
                if owner == store.session_id:
                    return store.set(path, data).czxid
                if owner != previous_session_id:
                    raise BrokerIdTakenError(registration.broker_id, owner) from None
                store.delete(path)
            except NoNodeError:
                continue  # it went meanwhile


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
                continue  # another broker was faster, or the reply to our first try was lost
            return Controllership(broker_id, epoch)
        return Controllership(incumbent, decode_controller_epoch(store.get(paths.CONTROLLER_EPOCH)[0]))
