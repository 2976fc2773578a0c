"""Limits of the operating system that a run needs raised."""

from __future__ import annotations

import resource


def raise_descriptor_limit() -> None:
    """Thousands of partitions and connections need descriptors, here and in the brokers, which inherit the limit."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
