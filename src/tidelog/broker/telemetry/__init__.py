"""Metrics that clients push (KIP-714): which are asked for, what came, and how a page shows it.

`otlp` reads what clients send. `subscriptions` decides what each client is asked for and when it may send. `series`
keeps the values. None of them does I/O; the handler in `broker.handlers.telemetry` connects them to requests.
"""
