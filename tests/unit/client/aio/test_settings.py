import pytest

from tidelog.client.aio.producer.settings import ProducerSettings, load_producer_settings
from tidelog.client.aio.settings import load_settings, make_objects
from tidelog.client.errors import ClientConfigError
from tidelog.records.compression import Codec

SERVERS = {"bootstrap.servers": "one:9092,two:9092"}


def load(**keywords: object) -> ProducerSettings:
    return load_producer_settings(SERVERS, keywords)


def test_dots_underscores_texts_and_values_mean_the_same() -> None:
    by_dots = load_settings(ProducerSettings, {**SERVERS, "linger.ms": "5", "enable.idempotence": "false"}, {})
    by_words = load_settings(
        ProducerSettings,
        None,
        {"bootstrap_servers": ["one:9092", "two:9092"], "linger_ms": 5, "enable_idempotence": False},
    )
    assert by_dots == by_words
    assert by_dots.bootstrap_servers == ("one:9092", "two:9092")


def test_an_unknown_name_is_refused_with_the_nearest_one() -> None:
    with pytest.raises(
        ClientConfigError, match=r"'linger\.msec' is not a setting of this client; did you mean 'linger\.ms'"
    ):
        load_producer_settings({**SERVERS, "linger.msec": 5}, {})
    with pytest.raises(ClientConfigError, match=r"did you mean 'batch\.size'"):
        load(batch_sizes=1)
    with pytest.raises(ClientConfigError, match=r"is not a setting of this client$"):
        load(zzz=1)


@pytest.mark.parametrize(
    ("name", "value", "problem"),
    [
        ("linger_ms", "soon", "Not a number"),
        ("linger_ms", -1, "at least 0"),
        ("linger_ms", 1.5, "not of type long"),
        ("batch_size", True, "not of type int"),
        ("client_id", 7, "not of type string"),
        ("acks", "2", "all, -1, 0, 1"),
        ("acks", 2, "all, -1, 0, 1"),
        ("compression_type", "brotli", "none, gzip"),
        ("enable_idempotence", 1, "not of type boolean"),
        ("value_serializer", "nowhere.at.all", "Cannot be imported"),
        ("request_timeout_ms", 1 << 40, "not of type int"),
        ("acks", 1.0, "all, -1, 0, 1"),
        ("compression_gzip_level", 0, "between 1 and 9"),
        ("transactional_id", "", "is empty"),
        ("interceptor_classes", 5, "is not a list"),
    ],
)
def test_a_bad_value_is_named_with_its_setting(name: str, value: object, problem: str) -> None:
    with pytest.raises(ClientConfigError, match=problem) as refused:
        load(**{name: value})
    assert name.replace("_", ".") in str(refused.value)


def test_no_servers_and_contradictions_are_refused() -> None:
    with pytest.raises(ClientConfigError, match=r"bootstrap\.servers"):
        load_producer_settings({}, {})
    with pytest.raises(ClientConfigError, match=r"linger\.ms is given twice: 1 and 2"):
        load_producer_settings({**SERVERS, "linger.ms": 1}, {"linger_ms": 2})


def test_objects_are_taken_as_they_are_or_by_their_path() -> None:
    assert load(value_serializer=str.encode).value_serializer is str.encode
    assert load(value_serializer="json.dumps").value_serializer.__name__ == "dumps"
    assert load(value_serializer="json:dumps").value_serializer.__name__ == "dumps"


def test_idempotence_gives_way_unless_it_was_asked_for() -> None:
    assert load().enable_idempotence
    assert not load(acks="1").enable_idempotence
    assert not load(retries=0).enable_idempotence
    with pytest.raises(ClientConfigError, match=r"enable\.idempotence=true needs acks=all"):
        load(acks=1, enable_idempotence=True)
    assert not load(max_in_flight_requests_per_connection=6).enable_idempotence
    with pytest.raises(ClientConfigError, match="at most 5, not 6"):
        load(max_in_flight_requests_per_connection=6, enable_idempotence=True)
    assert load(max_in_flight_requests_per_connection=6, enable_idempotence=False).acks == -1


def test_a_transactional_id_needs_idempotence() -> None:
    with pytest.raises(ClientConfigError, match=r"transactional\.id needs"):
        load(transactional_id="id", enable_idempotence=False)
    with pytest.raises(ClientConfigError, match="acks=all"):
        load(transactional_id="id", acks=1)


def test_the_delivery_timeout_covers_linger_and_request() -> None:
    with pytest.raises(ClientConfigError, match=r"delivery\.timeout\.ms=1000 must be at least"):
        load(delivery_timeout_ms=1000)
    assert load(request_timeout_ms=500_000).delivery_timeout_ms == 500_000


def test_codecs_carry_their_own_level() -> None:
    assert load().codec is Codec.NONE
    assert (load(compression_type="zstd", compression_zstd_level=9).codec_level) == 9
    assert load(compression_type="snappy").codec_level is None


def test_what_is_no_list_of_settings_is_refused() -> None:
    with pytest.raises(ClientConfigError, match="'one:9092'"):
        load_producer_settings("one:9092", {})  # type: ignore[arg-type]
    with pytest.raises(ClientConfigError, match="5 is not a setting name"):
        load_producer_settings({5: 6}, {})  # type: ignore[dict-item]
    with pytest.raises(ClientConfigError, match=r"bootstrap\.servers has 7"):
        load_producer_settings({"bootstrap.servers": ["one:9092", 7]}, {})


class Listening:
    """Something to hang into a client."""

    def hear(self) -> None:
        """Hear."""


def test_objects_are_given_as_such_as_classes_or_by_path() -> None:
    given = Listening()
    made = make_objects("ears", [given, Listening, f"{__name__}.Listening"], ("hear",))
    assert made[0] is given
    assert [type(each).__name__ for each in made] == ["Listening"] * 3
    with pytest.raises(ClientConfigError, match="ears has 5, which has no method hear"):
        make_objects("ears", [5], ("hear",))
    with pytest.raises(ClientConfigError, match=r"ears has 'nowhere\.Ear': Cannot be imported"):
        make_objects("ears", ["nowhere.Ear"], ("hear",))
