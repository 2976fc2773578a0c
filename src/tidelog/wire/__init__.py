"""Kafka's protocol as bytes: frames, primitives, messages, error codes, and the codecs of the hot path.

    errors         error codes, and the exceptions with them
    api_keys       the numbers of the APIs
    frames         request and response headers
    primitives     varints, strings, uuids
    partitions     the type of a partition's name
    fields         the fields of declarations
    schema         how a message is declared; `messages` has Kafka's, `own_messages` Tidelog's
    spans          decoders of the hot path, compiled from the declarations: requests as tuples
    produce        the hot path: Produce requests and responses without message objects
    fetch          the same for Fetch
    offset_commit  the same for OffsetCommit

Nothing here does I/O or keeps state. Import the modules; this package itself loads nothing.
"""
