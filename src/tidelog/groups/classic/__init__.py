"""Groups of the classic protocol: members join, one of them assigns for all, and everyone synchronizes.

    states         the states of a group and the transitions between them, as a table
    group, member  the state itself
    joining        JoinGroup: members, static ones and those that come without an id
    rebalancing    the phase in which members join, and its end
    syncing        SyncGroup and heartbeats
    leaving        LeaveGroup and members that are removed
    effects        what a decision is put together from while it is made

No I/O here: requests and the time come in, decisions go out.
"""
