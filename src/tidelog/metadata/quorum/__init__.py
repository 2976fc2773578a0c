"""The metadata of a KRaft quorum: the records of its log, and the state of the cluster that they add up to.

Nothing here reads a file or a socket: records and bytes are arguments, and what changed is returned.
"""
