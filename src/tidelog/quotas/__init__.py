"""Quotas without I/O: what was spent, what may be, and how long to wait. The time is an argument."""

from tidelog.quotas.clients import DEFAULT, ClientQuotas, QuotaEntity, QuotaType, limits_in, number_in
from tidelog.quotas.rates import RateWindows
from tidelog.quotas.replication import ReplicationQuota, ReplicationQuotas
from tidelog.quotas.token_bucket import TokenBucket

__all__ = [
    "DEFAULT",
    "ClientQuotas",
    "QuotaEntity",
    "QuotaType",
    "RateWindows",
    "ReplicationQuota",
    "ReplicationQuotas",
    "TokenBucket",
    "limits_in",
    "number_in",
]
