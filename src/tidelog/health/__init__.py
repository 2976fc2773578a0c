"""What is wrong with a cluster, and what to do about it: the checks of `tidelog doctor` and of the console.

`examine` looks at a cluster through an admin, twice if it is given time in between, and returns findings, the worst
first. The checks themselves are pure functions of a `Snapshot` (`tidelog.health.checks`). `tidelog.health.host` looks
at the machine and the settings file of a broker that is to be started there.
"""

from tidelog.health.examination import examine
from tidelog.health.findings import Finding, Level, worst

__all__ = ["Finding", "Level", "examine", "worst"]
