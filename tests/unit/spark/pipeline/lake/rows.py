"""A stand-in for Spark's rows: what tables use of a DataFrame, without a JVM."""

from types import SimpleNamespace

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    ShortType,
    StringType,
    StructField,
    StructType,
)

POINT = StructType([StructField("x", LongType())])
PLACE = StructType([StructField("x", LongType()), StructField("name", StringType())])
KINDS = {
    "long": LongType(),
    "int": IntegerType(),
    "short": ShortType(),
    "float": FloatType(),
    "double": DoubleType(),
    "string": StringType(),
    "boolean": BooleanType(),
    "point": POINT,
    "place": PLACE,
    "points": ArrayType(POINT),
    "places": ArrayType(PLACE),
}


class Rows:
    """Rows in two tasks, the second without any. A column of `name type required` has no nulls, as Spark knows it."""

    def __init__(self, rows, schema):
        fields = [text.split() for text in schema.split(", ")]
        self.text = schema
        self.schema = StructType([StructField(field, KINDS[kind], not required) for field, kind, *required in fields])
        self.columns = self.schema.fieldNames()
        columns = list(zip(*rows, strict=True)) or [()] * len(self.columns)
        arrays = dict(zip(self.columns, map(list, columns), strict=True))
        self._table = pa.Table.from_pydict(arrays, to_arrow_schema(self.schema, timezone="UTC"))

    def mapInArrow(self, function, _schema):
        made = [*function(iter(self._table.to_batches())), *function(iter([]))]
        rows = [SimpleNamespace(**row) for each in made for row in each.to_pylist()]
        return SimpleNamespace(collect=lambda: rows)

    def toArrow(self):
        return self._table

    def drop(self, name):
        kept = [each for each in self.columns if each != name]
        rows = zip(*[self._table[each].to_pylist() for each in kept], strict=True)
        return Rows(list(rows), ", ".join(each for each in self.text.split(", ") if each.split()[0] in kept))
