"""Every type in the signature of a public class can be imported from `tidelog.client`."""

import inspect
import typing
from collections.abc import Iterator

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import tidelog.client
from tidelog.client import BlockingDelivery, BlockingTableDelivery, Delivery, TableDelivery, options

CLASSES = [found for name in tidelog.client.__all__ if inspect.isclass(found := getattr(tidelog.client, name))]
MADE_BY_CLIENTS = {Delivery, BlockingDelivery, TableDelivery, BlockingTableDelivery}
KNOWN = vars(options) | {
    "pd": pd,
    "pl": pl,
    "Table": pa.Table,
    "RecordBatch": pa.RecordBatch,
    "TableDelivery": TableDelivery,
    "BlockingTableDelivery": BlockingTableDelivery,
}


@pytest.mark.parametrize("owner", CLASSES, ids=lambda owner: owner.__name__)
def test_every_type_in_a_signature_is_public(owner: type) -> None:
    for name, annotated in [("its fields", owner), *_public_functions(owner)]:
        hints = typing.get_type_hints(annotated, localns=KNOWN)
        for found in {each for hint in hints.values() for each in _classes_in(hint)}:
            assert found.__name__ in tidelog.client.__all__, f"{owner.__name__}: {name} has {found.__name__}"


def _public_functions(owner: type) -> Iterator[tuple[str, object]]:
    for name, member in inspect.getmembers(owner):
        if name.startswith("_") and (name != "__init__" or owner in MADE_BY_CLIENTS):
            continue
        found = member.fget if isinstance(member, property) else member
        if inspect.isroutine(found) and (getattr(found, "__module__", None) or "").startswith("tidelog"):
            yield name, inspect.unwrap(found)


def _classes_in(hint: object) -> Iterator[type]:
    if inspect.isclass(hint) and hint.__module__.startswith("tidelog"):
        yield hint
    for part in typing.get_args(hint):
        for each in part if isinstance(part, list) else [part]:
            yield from _classes_in(each)
