"""Tidelog: a Kafka-compatible event log in Python.

The package is a house of rooms (see ARCHITECTURE.md); nothing is imported here, so that `tidelog serve` starts fast.
"""

__version__ = "0.3.0.dev0"
