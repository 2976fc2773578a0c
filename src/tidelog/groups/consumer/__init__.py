"""Groups with the newer protocol (KIP-848): the coordinator assigns, and each member moves to its target on its own.

    epoch              grows with every change of members, subscriptions or topics
    target assignment  who is to have what, computed for an epoch by an assignor
    member             moves from what it has to its target: gives up first, then gets what others have given up

`ConsumerGroup` is the state, changed by replay alone; `ConsumerRequests` decides; `GroupShard` calls both.
"""
