"""Groups with the newer protocol (KIP-848): the coordinator assigns, and each member moves to its target on its own.

    epoch              grows with every change of members, subscriptions or topics
    target assignment  who is to have what, computed for an epoch by an assignor
    member             moves from what it has to its target: gives up first, then gets what others have given up

Members of the classic protocol may be among them: to those the coordinator looks like a leader that somebody else is.

`ConsumerGroup` is the state, changed by replay alone. `ConsumerRequests` decides heartbeats of the newer protocol,
`ClassicMembers` the requests of the classic one, and `migration` makes one kind of group of the other. `GroupShard`
calls them by way of `ConsumerGroups`.
"""
