"""One small interface over three Kafka clients that we did not write, so that one test can ask all of them.

A driver opens a client for each call and closes it again: what is tested is the broker, and nothing should depend on
what a client learned before. Settings that only one client has are used in tests of that client alone.
"""

from tests.compat.clients.drivers._aiokafka import AiokafkaDriver
from tests.compat.clients.drivers._confluent import ConfluentDriver
from tests.compat.clients.drivers._kafka_python import KafkaPythonDriver
from tests.compat.clients.drivers.types import Driver, Message, Refused, Stored

DRIVERS: tuple[Driver, ...] = (ConfluentDriver(), KafkaPythonDriver(), AiokafkaDriver())

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")

__all__ = ["CODECS", "DRIVERS", "Driver", "Message", "Refused", "Stored"]
