"""Whatever labels, values and requests are, pages can be read and requests are answered or refused."""

from math import isnan

from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_text

from tidelog.metrics import Registry
from tidelog.metrics.http import HttpError, accepts_openmetrics, parse_request

# Lone surrogates cannot be encoded; a page has question marks there.
TEXTS = st.text(st.characters(codec="utf-8"), max_size=20)
HEADS = st.one_of(
    st.binary(max_size=300),
    st.lists(
        st.sampled_from(
            [b"GET", b"HEAD", b" ", b"/metrics", b"HTTP/1.1", b"HTTP/1.0", b"\r\n", b"\n", b"Accept", b":", b"\x00",
             b"application/openmetrics-text", b";q=", b"1", b",", b"Connection: close", b"Content-Length: ", b"\xff"]
        ),
        max_size=30,
    ).map(b"".join),
)  # fmt: skip


@given(st.dictionaries(st.tuples(TEXTS, TEXTS), st.floats(), max_size=5), TEXTS)
def test_labels_and_values_are_read_as_they_were_given(values: dict[tuple[str, str], float], doc: str) -> None:
    registry = Registry()
    gauge = registry.gauge("g", doc, ["a", "b"])
    for labels, value in values.items():
        gauge.labels(*labels).set(value)
    for is_open, parse in ((False, parse_text), (True, parse_openmetrics)):
        page = registry.exposition(is_open).decode()
        read = {
            (sample.labels["a"], sample.labels["b"]): sample.value
            for family in parse(page)
            for sample in family.samples
        }
        assert read.keys() == values.keys()
        assert all(read[key] == value or (isnan(value) and isnan(read[key])) for key, value in values.items())


@given(st.text(max_size=20))
def test_any_text_can_be_a_label(text: str) -> None:
    registry = Registry()
    registry.gauge("g", text, ["a"]).labels(text).set(1)
    assert len(list(parse_text(registry.exposition().decode()))) == 1


@given(HEADS)
def test_a_head_is_read_or_refused(head: bytes) -> None:
    try:
        path = parse_request(head).path
    except HttpError as error:
        path = f"/{error.status}"
    assert path.startswith("/")


@given(st.text(max_size=200))
def test_any_accept_header_is_understood(accept: str) -> None:
    assert accepts_openmetrics(accept) in (True, False)
