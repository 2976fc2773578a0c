"""A broker's start in the tree: the root nodes, its registration, the election of the controller.

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
    """The controller's broker id and its epoch."""

    broker_id: int
    epoch: int


def prepare_tree(store: Store) -> None:
    """Create the persistent root nodes."""
    ensure_paths(store, paths.PERSISTENT_ROOTS)


def register_broker(store: Store, registration: BrokerRegistration, previous_session_id: int = NO_SESSION) -> int:
    """Make the broker's ephemeral node; return the broker epoch, which grows with each registration.

    If the node exists, its session decides. Ours: the data is replaced (the reply to an earlier call was lost, or the
    registration changes). `previous_session_id`, our expired one, whose node ZooKeeper removes late or never
    (ZOOKEEPER-2985): the node is deleted and created again. Any other, of another broker or of an earlier run of this
    one: `BrokerIdTakenError`.
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
                continue  # the node was deleted meanwhile


def elect_controller(store: Store, broker_id: int, now_ms: int) -> Controllership:
    """Become controller if there is none; return the controller.

    The node and the raised epoch come together or not at all. A controller that lost its session without noticing keeps
    sending requests with the old epoch, which brokers reject.
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
