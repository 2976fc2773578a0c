import pytest

from tidelog.client.aio.share.settings import load_share_settings
from tidelog.client.errors import ClientConfigError

SERVERS = {"bootstrap_servers": "h:1"}


@pytest.mark.parametrize("given", [{}, {"group.id": ""}, {"group.id": None}])
def test_a_group_is_needed(given: dict[str, object]) -> None:
    with pytest.raises(ClientConfigError, match=r"group\.id"):
        load_share_settings(given, SERVERS)


@pytest.mark.parametrize(
    ("name", "value"),
    [("share.acknowledgement.mode", "none"), ("share.acquire.mode", "strict"), ("auto.offset.reset", "earliest")],
)
def test_what_does_not_exist_is_refused(name: str, value: str) -> None:
    """As Kafka's share consumer does it: where a group begins is a setting of the group."""
    with pytest.raises(ClientConfigError, match=name):
        load_share_settings({"group.id": "g", name: value}, SERVERS)
