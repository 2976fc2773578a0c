"""Traps of Spark's that are none of the reader's making."""

import subprocess
import sys
from importlib.metadata import requires


def test_importing_the_registered_module_is_light_and_safe():
    """Spark imports every `pyspark_*` module for every look-up; one that raises makes it skip all of them."""
    code = (
        "import pyspark_tidelog, sys; assert pyspark_tidelog.DefaultSource.name() == 'tidelog'; "
        "print(sorted({'numba', 'pyarrow', 'numpy', 'pandas', 'tidelog.client.cluster'} & set(sys.modules)))"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert run.stdout.strip() == "[]"


def test_the_extra_brings_a_pandas_that_spark_accepts():
    """Spark's Arrow paths insist on it, although its own package does not."""
    assert any(
        each.startswith("pandas") and ">=2.2" in each and "'spark'" in each for each in requires("tidelog") or ()
    )
