"""The asyncio core of the clients, and the clients built on it.

    settings       Kafka's client settings, typed
    network        NetworkClient: connections, metadata, coordinators
    metadata       MetadataCache: what is known of the cluster (pure)
    reactions      what an error code asks of a client
    backoff        how long to wait before the next attempt

`tidelog.client` is the public list; nothing is imported here.
"""
