"""Replicas of partitions: who leads, what is committed, and what waits for it.

`ReplicaManager` is the room's face; the broker's handlers call it, the log manager of `storage` serves it.
"""
