"""Share groups (KIP-932), below their membership: records that are locked one by one, and the store of their state.

`SharePartition` is a partition as a group sees it, on the broker that leads the partition. `ShareStateShard` stores it,
in one partition of `__share_group_state`. `ShareSessions` knows which partitions a member reads. No I/O here.
"""
