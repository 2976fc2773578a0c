"""The metrics of a broker, under the names that the usual configuration of the JMX exporter gives to Kafka's.

Most are read from the broker's parts when a page is made. What must be counted as it happens is counted by `requests`
and `tidelog.replication.traffic`. Nothing here is imported by a broker without `metrics.listeners`.
"""

from tidelog.broker.metrics.broker_metrics import BrokerMetrics
from tidelog.broker.metrics.requests import RequestMeter

__all__ = ["BrokerMetrics", "RequestMeter"]
