"""A schema registry for tests: Confluent's REST API over HTTP, with everything in memory.

`subjects` decides and does no I/O, `compatibility` compares schemas, `routes` maps requests to both, `server` is the
HTTP edge and what a test uses.
"""

from tidelog.testing.registry.server import SchemaRegistryServer

__all__ = ["SchemaRegistryServer"]
