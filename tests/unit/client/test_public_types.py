"""Every type in the signature of a public class can be imported from `tidelog.client`."""

import inspect
import typing
from collections.abc import Iterator
from importlib import import_module

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import tidelog.client
from tidelog.client import AdminOptions, BlockingDelivery, BlockingTableDelivery, Delivery, TableDelivery
from tidelog.client.aio import options
from tidelog.client.aio.consumer import options as consumer_options
from tidelog.client.aio.producer import options as producer_options
from tidelog.client.aio.share import options as share_options

PUBLIC: list[str] = import_module("tidelog.client").__all__
CLASSES = [found for name in PUBLIC if inspect.isclass(found := getattr(tidelog.client, name))]
MADE_BY_CLIENTS = {Delivery, BlockingDelivery, TableDelivery, BlockingTableDelivery}
KNOWN = (
    vars(options)
    | vars(consumer_options)
    | vars(producer_options)
    | vars(share_options)
    | {
        "AdminOptions": AdminOptions,
        "pd": pd,
        "pl": pl,
        "Table": pa.Table,
        "RecordBatch": pa.RecordBatch,
        "TableDelivery": TableDelivery,
        "BlockingTableDelivery": BlockingTableDelivery,
    }
)


@pytest.mark.parametrize("owner", CLASSES, ids=lambda owner: owner.__name__)
def test_every_type_in_a_signature_is_public(owner: type) -> None:
    for name, annotated in [("its fields", owner), *_public_functions(owner)]:
        hints = typing.get_type_hints(annotated, localns=KNOWN)
        for found in {each for hint in hints.values() for each in _classes_in(hint)}:
            assert found.__name__ in PUBLIC, f"{owner.__name__}: {name} has {found.__name__}"


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
