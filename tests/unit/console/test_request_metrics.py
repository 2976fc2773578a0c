"""Where a broker's metrics are, and the requests in them."""

import pytest

from tidelog.console.request_metrics import RequestRow, address_of, rows_of

TEXT = """\
# TYPE kafka_network_requestmetrics_totaltimems summary
kafka_network_requestmetrics_requests_total{request="Fetch",version="13"} 9
kafka_network_requestmetrics_totaltimems{request="Fetch",quantile="0.50"} 500.5
kafka_network_requestmetrics_totaltimems{request="Fetch",quantile="0.99"} 502
kafka_network_requestmetrics_totaltimems_count{request="Fetch"} 9
kafka_network_requestmetrics_localtimems{request="Fetch",quantile="0.99"} 1.25
kafka_network_requestmetrics_totaltimems_count{request="Produce"} 12
kafka_network_requestmetrics_totaltimems{request="Produce",quantile="0.50"} much
kafka_server_other{request="Fetch"} 1
"""


def test_requests_are_sorted_by_how_often_they_came():
    assert rows_of(TEXT.splitlines()) == [
        RequestRow("Produce", 12, None, None, None),
        RequestRow("Fetch", 9, 500.5, 502.0, 1.25),
    ]


@pytest.mark.parametrize(
    ("listeners", "host", "address"),
    [
        ("http://b1:9404", "b1", "http://b1:9404/metrics"),
        ("http://0.0.0.0:9404", "b1", "http://b1:9404/metrics"),
        ("http://:9404", "b1", "http://b1:9404/metrics"),
        ("http://[::]:9404", "fd00::1", "http://[fd00::1]:9404/metrics"),
        ("http://127.0.0.1:9404", "localhost", "http://127.0.0.1:9404/metrics"),
        ("http://127.0.0.1:9404,http://metrics:9405", "b1", "http://metrics:9405/metrics"),
        ("http://127.0.0.1:9404", "b1", None),
        ("http://b1:0", "b1", None),
        ("http://b1:many", "b1", None),
        ("file:///etc/passwd", "b1", None),
        ("", "b1", None),
    ],
)
def test_metrics_are_where_the_broker_says_and_never_on_this_machine_instead(listeners, host, address):
    assert address_of(listeners, host) == address
