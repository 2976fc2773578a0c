"""Properties of jobs are the caller's again after the block, also when it fails."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from tidelog.spark.pipeline.running.job_properties import job_properties


class _Context:
    def __init__(self, **properties: str) -> None:
        self.properties: dict[str, str] = properties

    def getLocalProperty(self, name: str) -> str | None:
        return self.properties.get(name)

    def setLocalProperty(self, name: str, value: str | None) -> None:
        if value is None:
            self.properties.pop(name, None)
        else:
            self.properties[name] = value


def test_a_property_is_set_in_the_block_and_put_back_after_a_failure() -> None:
    context = _Context(pool="the caller's")
    spark = cast(Any, SimpleNamespace(sparkContext=context))

    def fail() -> None:
        with job_properties(spark, {"pool": "orders", "query": "7"}):
            assert context.properties == {"pool": "orders", "query": "7"}
            raise ValueError("it fails")

    with pytest.raises(ValueError, match="fails"):
        fail()
    assert context.properties == {"pool": "the caller's"}
