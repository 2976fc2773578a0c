"""Kafka's protocol as bytes: frames, primitives, messages, error codes, and the codecs of the hot path.

    errors       error codes, and the exceptions that carry them
    api_keys     the numbers of the APIs
    frames       request and response headers
    primitives   varints, strings, uuids
    schema       how a message is declared; `messages` has all of them
    produce      the hot path: Produce requests and responses without objects in between
    fetch        the same for Fetch

Nothing here does I/O or keeps state. Import the modules; this package itself loads nothing.
"""
