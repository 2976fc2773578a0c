"""New leader epochs for partitions whose leader stays the same. Called at start-up, after an unclean shutdown."""

from tidelog.metadata import paths
from tidelog.metadata.image import TRANSACTIONS_TOPIC, ClusterImage, PartitionImage
from tidelog.metadata.store import Operation, Set, Store
from tidelog.metadata.tree import PartitionState, encode_partition_state


def begin_new_epochs(store: Store, image: ClusterImage, broker_id: int, controller_epoch: int) -> None:
    """Raise the leader epoch of every partition that `broker_id` leads, in tree and image, all or nothing.

    Not of `__transaction_state`: its epoch goes into every marker as the coordinator's, and a log refuses markers of a
    lower one. When the directory moves back to Kafka, whose epoch did not rise, its transactions could never end.
    """
    led = [
        (topic.name, partition)
        for topic in image.topics()
        for partition in topic.partitions
        if partition.leader_id == broker_id and topic.name != TRANSACTIONS_TOPIC
    ]
    operations: list[Operation] = []
    for name, partition in led:
        state = PartitionState(broker_id, partition.leader_epoch + 1, partition.isr, controller_epoch)
        path = paths.partition_state(name, partition.index)
        operations.append(Set(path, encode_partition_state(state), partition.state_version))
    store.multi(operations)
    for name, partition in led:
        image.set_partition(
            name,
            PartitionImage(
                partition.index,
                broker_id,
                partition.leader_epoch + 1,
                partition.replicas,
                partition.isr,
                partition.failed_replicas,
                partition.state_version + 1,
            ),
        )
