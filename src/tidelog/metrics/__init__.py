"""Metrics in the text formats of Prometheus and OpenMetrics: a registry, its pages, and an HTTP endpoint for them.

Nothing here knows a broker or a client. Values that a program keeps anyway are read by collectors when a page is made
and cost nothing in between.
"""

from tidelog.metrics.distribution import Distribution, WindowedDistribution
from tidelog.metrics.exposition import CONTENT_TYPE_OPENMETRICS, CONTENT_TYPE_TEXT
from tidelog.metrics.families import Family, Kind, labels_text
from tidelog.metrics.registry import Collector, Counter, Gauge, Histogram, Registry, Summary

__all__ = [
    "CONTENT_TYPE_OPENMETRICS",
    "CONTENT_TYPE_TEXT",
    "Collector",
    "Counter",
    "Distribution",
    "Family",
    "Gauge",
    "Histogram",
    "Kind",
    "Registry",
    "Summary",
    "WindowedDistribution",
    "labels_text",
]
