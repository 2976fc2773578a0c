"""Quotas without I/O: rates over windows of time, bounds on them, and how long to wait. The time is an argument."""

from tidelog.quotas.rates import Quota, Rate, RateWindows
from tidelog.quotas.replication import ReplicationQuota, ReplicationQuotas

__all__ = ["Quota", "Rate", "RateWindows", "ReplicationQuota", "ReplicationQuotas"]
