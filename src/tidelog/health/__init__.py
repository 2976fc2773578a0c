"""What is wrong with a cluster, and what to do about it: the checks of `tidelog doctor` and of the console.

`examine` looks at a cluster through an admin, twice if it is given time in between, and returns findings, the worst
first. `summarize` says in one sentence what brokers and topics alone show. The checks themselves are pure functions of
a `Snapshot` (`tidelog.health.checks`). `tidelog.health.host` looks at the machine and the settings file of a broker
that is to be started there.
"""

from tidelog.health.examination import examine
from tidelog.health.findings import Finding, Level, worst
from tidelog.health.summary import Summary, summarize

__all__ = ["Finding", "Level", "Summary", "examine", "summarize", "worst"]
