"""A ZooKeeper for tests: `ZooKeeperServer`, and `unavailable_reason()` where there can be none."""

from tidelog.cluster.zookeeper import HOST, ZooKeeperFailed, ZooKeeperServer, unavailable_reason

__all__ = ["HOST", "ZooKeeperFailed", "ZooKeeperServer", "unavailable_reason"]
