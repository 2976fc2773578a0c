"""Transactional producers that we did not write, behind one interface."""

from tests.compat.transactions.clients._aiokafka import AiokafkaClient
from tests.compat.transactions.clients._confluent import ConfluentClient
from tests.compat.transactions.clients._kafka_python import KafkaPythonClient
from tests.compat.transactions.clients.types import Client, Fenced, TransactionalProducer

CLIENTS: list[Client] = [ConfluentClient(), AiokafkaClient(), KafkaPythonClient()]

__all__ = ["CLIENTS", "Client", "Fenced", "TransactionalProducer"]
