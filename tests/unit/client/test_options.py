"""The typed keywords of the clients are their declared settings, name by name and type by type."""

import typing

import pytest

from tidelog.client.aio.admin.admin import AdminOptions, AdminSettings
from tidelog.client.aio.consumer.options import ConsumerOptions
from tidelog.client.aio.consumer.settings import ConsumerSettings
from tidelog.client.aio.producer.options import ProducerOptions
from tidelog.client.aio.producer.settings import ProducerSettings
from tidelog.client.aio.share.options import ShareConsumerOptions
from tidelog.client.aio.share.settings import ShareConsumerSettings
from tidelog.config.declaration import Settings

PLAIN = {int, bool, str, int | None, bool | None, str | None}


@pytest.mark.parametrize(
    ("options", "group"),
    [
        (AdminOptions, AdminSettings),
        (ProducerOptions, ProducerSettings),
        (ConsumerOptions, ConsumerSettings),
        (ShareConsumerOptions, ShareConsumerSettings),
    ],
)
def test_the_keywords_are_the_settings(options: type, group: type[Settings]) -> None:
    hints = typing.get_type_hints(options)
    declared = {setting.field: typing.get_type_hints(group)[setting.field] for setting in group.settings.values()}
    assert list(hints) == list(declared), f"{options.__module__} lists other settings than are declared"
    for name, hint in hints.items():
        if hint in PLAIN:
            assert hint == declared[name], name
        elif typing.get_origin(hint) is typing.Literal:
            assert all(isinstance(value, declared[name]) or value == "all" for value in typing.get_args(hint)), name
