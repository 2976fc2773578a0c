"""Share groups (KIP-932): their members, assignments, and which of their partitions have a stored state.

    member             is in the group's epoch with its next heartbeat: it has nothing to hand over
    target assignment  each member's partitions; several members may have the same one
    state partitions   those whose state was initialized; no other partition is assigned

`ShareGroup` is the state, changed by replay alone; `ShareGroups` decides requests. `GroupShard` calls it.
"""
