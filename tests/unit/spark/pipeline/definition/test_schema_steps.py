"""Steps with schemas: three formats, one set of arguments."""

import pytest

from tidelog.spark.pipeline import pack_avro, pack_json_schema, pack_protobuf, parse_avro, parse_protobuf
from tidelog.spark.pipeline.applying.steps import PackSchema, ParseSchema
from tidelog.spark.pipeline.definition.schema_steps import AVRO, PROTOBUF


def test_arguments_that_a_format_does_not_have_are_refused() -> None:
    for wrong in (
        lambda: parse_avro("order.avsc", message="shop.Order"),  # type: ignore[call-arg]
        lambda: pack_protobuf(key_schema='"string"'),  # type: ignore[call-arg]
        lambda: pack_json_schema(allow_null=True),  # type: ignore[call-arg]
    ):
        with pytest.raises(TypeError, match="got an unexpected keyword argument"):
            wrong()


def test_arguments_become_those_of_the_step() -> None:
    assert parse_protobuf("order.proto", message="shop.Order", into="order") == ParseSchema(
        PROTOBUF, "order.proto", message="shop.Order", into="order"
    )
    assert pack_avro("id", key="id", key_schema='"long"', schema="order.avsc") == PackSchema(
        AVRO, ("id",), key="id", key_schema='"long"', schema="order.avsc"
    )
    assert pack_avro(schema="order.avsc").columns is None
