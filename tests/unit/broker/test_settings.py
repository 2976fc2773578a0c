"""What the rooms below get of a broker's settings."""

from tidelog.broker.configuration.settings import network_limits
from tidelog.config import load_broker_config


def test_the_limit_of_an_address_is_found_in_whichever_text_it_is_set() -> None:
    overrides = "0:0:0:0:0:0:0:1:3,[::ffff:10.0.0.1]:5,10.0.0.2:7"
    limits = network_limits(load_broker_config({"max.connections.per.ip.overrides": overrides}), 100)
    assert limits.connections_per_ip_overrides == {"::1": 3, "10.0.0.1": 5, "10.0.0.2": 7}
