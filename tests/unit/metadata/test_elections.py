from tidelog.metadata.elections import begin_new_epochs
from tidelog.metadata.image import BrokerImage, ClusterImage
from tidelog.metadata.loading import load_image
from tidelog.metadata.registration import prepare_tree
from tidelog.metadata.topics import plan_topic, write_topic
from tidelog.testing.memory_store import MemoryStore


def cluster() -> tuple[MemoryStore, ClusterImage]:
    store = MemoryStore()
    prepare_tree(store)
    image = ClusterImage("cluster")
    for broker_id in (1, 2):
        image.set_broker(BrokerImage(broker_id, {}))
    topic = plan_topic("orders", 4, 1, None, {}, image)
    write_topic(store, topic)
    image.set_topic(topic.image())
    return store, image


def test_what_a_broker_leads_gets_a_new_epoch_and_the_rest_keeps_its_own() -> None:
    store, image = cluster()
    begin_new_epochs(store, image, 1, controller_epoch=3)
    topic = image.topic("orders")
    assert topic is not None
    assert [(p.leader_id, p.leader_epoch) for p in topic.partitions] == [(1, 1), (2, 0), (1, 1), (2, 0)]


def test_tree_and_image_agree_afterwards_so_that_the_next_change_finds_its_version() -> None:
    store, image = cluster()
    begin_new_epochs(store, image, 1, controller_epoch=3)
    begin_new_epochs(store, image, 1, controller_epoch=4)
    loaded = load_image(store, "cluster").topic("orders")
    ours = image.topic("orders")
    assert loaded is not None
    assert ours is not None
    assert [(p.leader_epoch, p.state_version) for p in ours.partitions] == [(2, 2), (0, 0), (2, 2), (0, 0)]
    assert [(p.leader_epoch, p.state_version) for p in loaded.partitions] == [(2, 2), (0, 0), (2, 2), (0, 0)]


def test_a_broker_that_leads_nothing_changes_nothing() -> None:
    store, image = cluster()
    before = store.get("/")[1]
    begin_new_epochs(store, image, 9, controller_epoch=3)
    assert store.get("/")[1] == before


def test_the_coordinator_epoch_of_transactions_does_not_run_ahead_of_kafkas() -> None:
    """Kafka raises no epoch when its only broker restarts after a kill, and logs refuse markers of a lower one."""
    store, image = cluster()
    topic = plan_topic("__transaction_state", 2, 1, None, {}, image)
    write_topic(store, topic)
    image.set_topic(topic.image())
    begin_new_epochs(store, image, 1, controller_epoch=3)
    transactions = image.topic("__transaction_state")
    assert transactions is not None
    assert [p.leader_epoch for p in transactions.partitions] == [0, 0]
