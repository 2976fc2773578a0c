"""What Kafka's controller would have left in ZooKeeper for the topics of a data directory.

Kafka keeps topics and their ids there and only there, so a Kafka broker that is to open a directory it has not written
finds these nodes first. All else it takes from the files.
"""

import base64
import json

from benchmarks.apache_kafka import ZooKeeper, run_tool
from tests.compat.kafka_tools.samples import WrittenLog


def id_text(topic_id: bytes) -> str:
    """A topic id as Kafka writes it in ZooKeeper, in `partition.metadata` and in its tools' output."""
    return base64.urlsafe_b64encode(topic_id).rstrip(b"=").decode()


def write_nodes(zookeeper: ZooKeeper, root: str, log: WrittenLog) -> None:
    """The cluster id and one node a topic, below `root`."""
    meta = log.meta_properties()
    nodes: dict[str, object] = {f"{root}/cluster/id": {"version": "1", "id": meta["cluster.id"]}}
    for topic, topic_id in log.topic_ids.items():
        nodes[f"{root}/brokers/topics/{topic}"] = {
            "version": 3,
            "topic_id": id_text(topic_id),
            "partitions": {"0": [int(meta["broker.id"])]},
            "adding_replicas": {},
            "removing_replicas": {},
        }
    commands = [f"create {root}{parent}" for parent in ("", "/cluster", "/brokers", "/brokers/topics")]
    commands += [f"create {path} '{json.dumps(value, separators=(',', ':'))}'" for path, value in nodes.items()]
    run_tool(
        "org.apache.zookeeper.ZooKeeperMain",
        *("-server", zookeeper.connect_string),
        input_text="\n".join([*commands, "quit", ""]),
    )
