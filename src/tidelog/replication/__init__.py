"""Replicas of partitions: leaders and followers, high watermarks, and the requests that wait for them.

`ReplicaManager` is the entry point; it uses the logs of `storage`.
"""
