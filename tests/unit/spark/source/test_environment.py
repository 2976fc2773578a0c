"""Traps of Spark's that are none of the reader's making."""

from importlib.metadata import requires


def test_the_extra_brings_a_pandas_that_spark_accepts():
    """Spark's Arrow paths insist on it, although its own package does not."""
    assert any(
        each.startswith("pandas") and ">=2.2" in each and "'spark'" in each for each in requires("tidelog") or ()
    )
