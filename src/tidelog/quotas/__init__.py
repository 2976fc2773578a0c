"""Quotas without I/O: rates over windows of time, bounds on them, and how long to wait. The time is an argument."""

from tidelog.quotas.clients import DEFAULT, ClientQuotas, MutationQuotas, QuotaEntity, QuotaType, limits_in, number_in
from tidelog.quotas.rates import Quota, Rate, RateWindows
from tidelog.quotas.replication import ReplicationQuota, ReplicationQuotas
from tidelog.quotas.token_bucket import TokenBucket

__all__ = [
    "DEFAULT",
    "ClientQuotas",
    "MutationQuotas",
    "Quota",
    "QuotaEntity",
    "QuotaType",
    "Rate",
    "RateWindows",
    "ReplicationQuota",
    "ReplicationQuotas",
    "TokenBucket",
    "limits_in",
    "number_in",
]
