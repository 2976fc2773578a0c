"""Faults between a broker under test and its clients: the next request of a kind fails, is late, or is lost.

`plan` keeps what a test has asked for and does no I/O, `refusals` makes the response that refuses a request, and
`proxy` stands between the clients and the broker.
"""

from tidelog.testing.faults.plan import Faults
from tidelog.testing.faults.proxy import FaultProxy

__all__ = ["FaultProxy", "Faults"]
