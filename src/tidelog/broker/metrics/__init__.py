"""The metrics of a broker, under the names that the usual configuration of the JMX exporter gives to Kafka's.

Most are read from the broker's parts when a page is made. What must be counted as it happens is counted by
`broker.requests.request_meter` and `replication.traffic`. Nothing here is imported by a broker without
`metrics.listeners`.
"""

from tidelog.broker.metrics.broker_metrics import BrokerMetrics

__all__ = ["BrokerMetrics"]
