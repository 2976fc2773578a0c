"""Groups with the newer protocol (KIP-848): the coordinator assigns, and each member moves to its target on its own.

    epoch              grows with every change of members, subscriptions or topics
    target assignment  each member's partitions, computed for an epoch by an assignor
    member             moves to its target: revokes partitions first, then gets those that others have revoked

Members of the classic protocol may be among them. To them the group looks like a classic one with another leader.

`ConsumerGroup` is the state, changed by replay alone. `ConsumerRequests` decides heartbeats of the newer protocol,
`ClassicMembers` the requests of the classic one, and `migration` converts groups between the two protocols.
`GroupShard` calls them by way of `ConsumerGroups`.
"""
