"""How Spark finds the format `tidelog`: it imports every module called `pyspark_*` and takes its `DefaultSource`.

Nothing heavy may be imported here, because Spark imports this for every look-up of every format.
"""

from tidelog.spark.data_source import TidelogDataSource as DefaultSource

__all__ = ["DefaultSource"]
