"""The asyncio core of the clients, and the clients built on it.

    settings       Kafka's client settings, typed
    network        NetworkClient: connections, metadata, coordinators
    metadata       MetadataCache: the known state of the cluster (pure)
    reactions      how a client reacts to an error code
    backoff        how long to wait before the next attempt

`tidelog.client` is the public list; nothing is imported here.
"""
