"""Versions of rows, row by row those that AutoCDC of Spark's declarative pipelines makes of the same random histories.

AutoCDC writes only to tables with MERGE, for which Spark needs a jar. So its own code is called here with the whole
history as one batch, and an empty table; ours gets the same changes shuffled, in several batches.
"""

import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tests.unit.spark.pipeline.lake.rows import Rows
from tests.unit.spark.pipeline.lake.test_changes import CHANGES, history, parts
from tidelog.spark.pipeline import delta
from tidelog.spark.pipeline.lake.batches import Batch
from tidelog.spark.pipeline.lake.history import History
from tidelog.spark.pipeline.lake.tables import open_target

pytestmark = [pytest.mark.spark, pytest.mark.long, pytest.mark.timeout(300)]

STEPS = (
    "dropRedundantRowsPostDecomposition",
    "reconcileStartAndEndAt",
    "dropLeftoverDeletesPostReconciliation",
    "promoteDecompositionTailsToTombstones",
    "identifyAndTagAuxRows",
)


def auto_cdc(spark: Any, changes: list[Any]) -> Counter[Any]:
    """The rows of AutoCDC's table: `(id, name, start, end)`."""
    from pyspark.sql.classic.column import _to_java_column

    cdc = spark._jvm.org.apache.spark.sql.pipelines.autocdc

    def names(*given: str) -> Any:
        gathered = spark._jvm.java.util.ArrayList()
        for name in given:
            gathered.add(getattr(getattr(cdc, "UnqualifiedColumnName$"), "MODULE$").apply(name))
        return spark._jvm.org.apache.spark.api.python.PythonUtils.toSeq(gathered)

    def some(value: Any) -> Any:
        return spark._jvm.scala.Some(value)

    arguments = cdc.ChangeArgs(
        names("id"),
        _to_java_column(F.col("lsn")),
        getattr(getattr(cdc, "ScdType$Type2$"), "MODULE$"),
        some(_to_java_column(F.col("gone"))),
        some(getattr(cdc, "ColumnSelection$IncludeColumns")(names("id", "name"))),
        getattr(getattr(spark._jvm.scala, "None$"), "MODULE$"),
    )
    processor = cdc.Scd2BatchProcessor(arguments, spark._jsparkSession.parseDataType('"long"'))
    rows = [change[:4] for change in changes]
    given = spark.createDataFrame(rows, "id long, name string, lsn long, gone boolean")
    made = processor.decomposeOutOfOrderRows(processor.preprocessMicrobatch(given._jdf))
    made = processor.assertWellFormedRowsPostDecomposition(made, 0)
    for step in STEPS:
        made = getattr(processor, step)(made)
    found = DataFrame(made, spark).where("NOT __spark_autocdc_should_route_to_aux_table")
    return Counter(tuple(row) for row in found.select("id", "name", "__START_AT", "__END_AT").collect())


@pytest.mark.parametrize("seed", [3, 4])
def test_versions_are_those_of_auto_cdc(spark: SparkSession, tmp_path: Path, seed: int) -> None:
    jvm: Any = spark._jvm
    if "py4j.java_gateway.JavaClass" not in str(type(jvm.org.apache.spark.sql.pipelines.autocdc.Scd2BatchProcessor)):
        pytest.skip("AutoCDC with all versions came with Spark 4.3")
    changes = [change for change in history(seed, 60) if not change[4]]
    shuffled = random.Random(seed).sample(changes, len(changes))
    table: Any = open_target(delta(tmp_path / "table"))
    for number, batch in enumerate(parts(shuffled, 5)):
        table.keep(Rows(batch, CHANGES), Batch("q", number), History(("id",), "lsn"))
    found = [row for row in table.read().to_pylist() if row["valid_from"] != row["valid_to"]]
    ours = Counter((row["id"], row["name"], row["valid_from"], row["valid_to"]) for row in found)
    assert ours == auto_cdc(spark, changes)
