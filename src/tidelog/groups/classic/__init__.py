"""Groups of the classic protocol: members join, the leader computes the assignment, and members get it by SyncGroup.

    states         the states of a group and the transitions between them, as a table
    group, member  the state itself
    joining        JoinGroup: dynamic and static members, new and known ones
    rebalancing    the join phase and its end
    syncing        SyncGroup
    leaving        Heartbeat, LeaveGroup and session timeouts
    effects        collects the records, timers and answers of a decision

No I/O here: requests and the time come in, decisions go out.
"""
