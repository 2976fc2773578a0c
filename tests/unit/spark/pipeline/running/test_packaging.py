"""What goes into the archive for executors: the requirements of Tidelog, followed through extras; not Spark itself."""

from importlib.metadata import PackageNotFoundError
from typing import Any

import pytest

from tidelog.spark.pipeline import PipelineError
from tidelog.spark.pipeline.running.packaging import required

INSTALLED = {
    "tidelog": ["cramjam>=2", 'uvloop; sys_platform != "win32"', 'tidelog[pandas]; extra == "spark"',
                'pandas>=2; extra == "pandas"', 'typer; extra == "cli"', 'pyspark; extra == "spark"'],
    "cramjam": [],
    "pandas": ["python_dateutil>=2.8", "tzdata; python_version < '3'"],
    "python-dateutil": ["six"],
    "six": None,
    "pyspark": ["py4j"],
    "scikit-learn": ["pandas", "pyspark"],
    "typer": [],
}  # fmt: skip


class Fake:
    def __init__(self, name: str) -> None:
        if name not in INSTALLED:
            raise PackageNotFoundError(name)
        self.name = name
        self.requires = INSTALLED[name]


def names(*roots: str) -> set[str]:
    find: Any = Fake
    return {each.name for each in required(roots, find)}


def test_requirements_are_followed_through_extras_and_spark_stays_with_the_cluster() -> None:
    assert names("tidelog[spark]") == {"tidelog", "cramjam", "pandas", "python-dateutil", "six"}
    assert names("tidelog") == {"tidelog", "cramjam"}
    assert names("tidelog[spark]", "Scikit_Learn") == names("tidelog[spark]") | {"scikit-learn"}


def test_a_distribution_that_is_not_here_is_named() -> None:
    with pytest.raises(PipelineError, match="polars is not installed here"):
        names("polars")
    with pytest.raises(PipelineError, match=r"'\*' is not the name of a distribution"):
        names("*")
