"""The controller: one broker of the cluster decides who leads each partition and where its replicas are.

    Controller        one event at a time: a watch fired, a broker answered, a request came in
    ControllerContext what the controller knows: brokers, topics, assignments, leaders, states
    ControllerTree    the metadata tree as the controller reads and, fenced by its epoch, writes it
    RequestBatch      LeaderAndIsr, UpdateMetadata and StopReplica for the brokers that a change concerns

It is Kafka 3.9's controller of the ZooKeeper mode: nodes and requests are Kafka's own, so that Kafka brokers may follow
a controller of ours, and the reverse. Whatever the controller decides is in the tree before a broker learns of it, so
that the next controller goes on from any half-done step.

No socket, file, thread or clock: the tree, the queues to the brokers, the timer and the pauses between slices of work
are given to it.
"""
