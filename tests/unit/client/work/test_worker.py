from typing import Any

import pytest

from tidelog.client import ClientConfigError, RetryPolicy, Worker, worker
from tidelog.client.errors import IllegalState


@worker("orders", concurrency=3)
def invoice(record: Any) -> str:
    """Send an invoice."""
    return f"sent {record}"


def test_a_worker_is_called_like_its_function_and_its_group_has_the_name_of_it() -> None:
    assert invoice("x") == "sent x"
    assert invoice.__doc__ == "Send an invoice."
    assert (invoice.group_id, invoice.topics) == ("invoice", ("orders",))
    assert Worker(["a", "b"], print, group_id="g").group_id == "g"


@pytest.mark.parametrize(
    "given",
    [
        {"concurrency": 0},
        {"prefetch": -1},
        {"timeout_s": 0},
        {"begins_at": "now"},
        {"policy": RetryPolicy(dead_letters="x")},
        {"policy": RetryPolicy(store="topics")},
        {"policy": "often"},
        {"share_acknowledgement_mode": "implicit"},
        {"share_acquire_mode": "batch_optimized"},
        {"auto_offset_reset": "earliest"},
    ],
)
def test_what_has_no_effect_on_a_worker_is_refused(given: dict[str, Any]) -> None:
    with pytest.raises(ClientConfigError):
        Worker("orders", print, **given)


def test_a_worker_of_many_topics_does_not_know_where_to_queue() -> None:
    with pytest.raises(IllegalState, match="2 topics"):
        Worker(["a", "b"], print).enqueue(b"x")
