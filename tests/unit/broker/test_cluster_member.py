"""A broker that is sent new topics reads their settings from the tree, also if the tree is away for a while."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tidelog.broker.topology import controller_requests
from tidelog.broker.topology.controller_requests import ControllerRequests
from tidelog.metadata.errors import SessionExpiredError, StoreError, StoreUnavailableError
from tidelog.wire.errors import ApiError, ErrorCode

SETTINGS = [{"retention.ms": "1000"}]


def read_settings(*failures: StoreError) -> list[dict[str, str]]:
    left = list(failures)

    async def run(*_: object) -> list[dict[str, str]]:
        if left:
            raise left.pop(0)
        return SETTINGS

    requests = SimpleNamespace(_metadata=SimpleNamespace(run=run))
    return asyncio.run(ControllerRequests._read_overrides(cast(Any, requests), ["t"]))


def test_settings_are_read_when_the_tree_is_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """The controller sends LeaderAndIsr once: a request that failed for this would leave its partitions unled."""
    monkeypatch.setattr(controller_requests, "_PAUSE_S", 0)
    assert read_settings(StoreUnavailableError("away"), StoreUnavailableError("away")) == SETTINGS


def test_a_session_that_ended_refuses_the_request() -> None:
    """The broker registers again, and the controller sends it everything again."""
    with pytest.raises(ApiError) as refused:
        read_settings(SessionExpiredError("over"))
    assert refused.value.code is ErrorCode.UNKNOWN_SERVER_ERROR
