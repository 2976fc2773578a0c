"""The options of the sink. `writers` reads them on the driver, tasks get them pickled."""

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from hashlib import sha256
from typing import Final, Literal, cast

from tidelog.client.aio.producer.settings import ProducerSettings, load_producer_settings
from tidelog.client.errors import ClientConfigError
from tidelog.config.names import advice_about
from tidelog.spark.delegation import TokenSource, take_token_source
from tidelog.spark.options import OptionError, Options, security_settings
from tidelog.spark.sink.checkpoint import has_offset_log, plan_of, query_id_of

LOG: Final = logging.getLogger("tidelog.spark.sink")

Delivery = Literal["exactly-once", "at-least-once", "small"]

EXACTLY_ONCE: Final = "exactly-once"
AT_LEAST_ONCE: Final = "at-least-once"
SMALL: Final = "small"

DEFAULT_STATE_TOPIC: Final = "__tidelog_sink_state"

PLAN_OPTION: Final = "batchPlan"
BATCH_OPTION: Final = "batchNumber"
"""Both are set by `write_each_batch` for each batch; not for users."""

STREAM_OPTION: Final = "batchOfStream"
"""Set by pipelines: batches are recognised by what the sink of a stream, on the same checkpoint, has written."""

_REFUSE: Final = "refuse"
_SKIP: Final = "skip"
_ON_REPEATED: Final = (_REFUSE, _SKIP)
_DELIVERIES: Final = (EXACTLY_ONCE, AT_LEAST_ONCE, SMALL)
_ACKS_ALL: Final = -1
_REFUSED: Final = {
    "key.serializer": "keys are strings or bytes, and written as they are",
    "value.serializer": "values are strings or bytes, and written as they are",
    "interceptor.classes": "rows do not pass through interceptors",
    "transactional.id": "use the option 'transactionalId', or let it be derived from checkpointLocation",
}
_JAVA_PARTITIONERS: Final[Mapping[str, Mapping[str, str]]] = {
    "org.apache.kafka.clients.producer.internals.DefaultPartitioner": {},
    "org.apache.kafka.clients.producer.UniformStickyPartitioner": {"partitioner.ignore.keys": "true"},
    "org.apache.kafka.clients.producer.RoundRobinPartitioner": {
        "partitioner.class": "tidelog.client.aio.producer.partitioners.RoundRobinPartitioner"
    },
}
"""The partitioner classes of Kafka's client, and our settings that do the same."""


@dataclass(frozen=True, slots=True)
class SinkSettings:
    """The options of one sink. Hashable: it is the key of cached clients."""

    topic: str | None
    delivery: Delivery
    transactional_id: str | None
    """None: a new one for each write, as for batches."""
    state_topic: str
    sink_name: str
    """Distinguishes several writes of one query in `foreachBatch`; empty for the sink of a stream."""
    kafka: tuple[tuple[str, str], ...] = field(repr=False)
    """Settings of the producer, under Kafka's names. Those of TLS and SASL hold secrets."""
    checkpoint: str | None = None
    """The checkpoint of the query, if known."""
    plan: str | None = None
    """The fingerprint of what Spark noted for the batch, if `write_each_batch` could ask Spark for it."""
    batch_number: int | None = None
    """The number of the batch, if its tasks cannot learn that from Spark: `transactional_id` stands for the query."""
    skips_repeated: bool = False
    """Whether a batch with a committed number counts as that batch although its rows differ."""
    token_source: TokenSource | None = None
    """Where a delegation token comes from, to log in with instead of what `kafka` holds."""

    def for_tasks(self) -> "SinkSettings":
        """The settings to pickle into tasks: with a token in place of secrets, if there is one. For the driver."""
        if self.token_source is None:
            return self
        secrets = security_settings(dict(self.kafka))
        kept = {name: value for name, value in self.kafka if name not in secrets}
        kafka = {**kept, **dict(self.token_source.security())}
        return replace(self, kafka=tuple(sorted(kafka.items())), token_source=None)

    def producer_settings(self) -> ProducerSettings:
        """The settings of the producer, typed."""
        return load_producer_settings(dict(self.kafka), None)

    @property
    def has_timeout(self) -> bool:
        """Whether the options say how long a transaction may stay open."""
        return "transaction.timeout.ms" in dict(self.kafka)

    def batch_plan(self, batch_id: int) -> str | None:
        """The fingerprint of what Spark noted for a batch; None where that cannot be read."""
        return self.plan or plan_of(self.checkpoint, batch_id)

    def can_read_plans(self) -> bool:
        """Whether batches can be compared by their offsets in the checkpoint. Call it on the driver."""
        return self.plan is not None or has_offset_log(self.checkpoint)

    @property
    def security(self) -> tuple[tuple[str, str], ...]:
        """Settings of TLS and SASL."""
        return tuple(security_settings(dict(self.kafka)).items())

    @property
    def bootstrap_servers(self) -> str:
        """Where the cluster is."""
        return dict(self.kafka)["bootstrap.servers"]


def read_stream_settings(options: Options) -> SinkSettings:
    """The settings of a sink of a stream: exactly once, unless something else is asked for."""
    delivery = _delivery(options, default=EXACTLY_ONCE)
    transactional_id = options.text("transactionalId")
    if transactional_id is None and delivery != AT_LEAST_ONCE:
        checkpoint = options.text("checkpointLocation")
        if checkpoint is None:
            raise OptionError(
                f"delivery={delivery} needs the option 'checkpointLocation' on the writer itself (a session setting "
                "does not reach the sink), or the option 'transactionalId' with a name unique to this query"
            )
        # By the path alone, queries on different machines, or in different working directories, would be one.
        transactional_id = default_transactional_id(query_id_of(checkpoint) or checkpoint)
    return _settings(options, delivery, transactional_id, sink_name="")


def read_batch_settings(options: Options) -> SinkSettings:
    """The settings of a batch write: at least once, as Spark's own connector, unless more is asked for."""
    delivery = _delivery(options, default=AT_LEAST_ONCE)
    transactional_id = options.text("transactionalId")
    is_of_stream = options.flag(STREAM_OPTION, False)
    sink_name = "" if is_of_stream else transactional_id or options.text("topic") or "rows"
    return _settings(options, delivery, transactional_id, sink_name=sink_name)


def default_transactional_id(of: str) -> str:
    """A transactional id that is the same for every run of a query."""
    return f"tidelog-sink-{sha256(of.rstrip('/').encode()).hexdigest()[:24]}"


def _delivery(options: Options, *, default: Delivery) -> Delivery:
    return cast(Delivery, options.one_of("delivery", _DELIVERIES, default))


def _settings(options: Options, delivery: Delivery, transactional_id: str | None, *, sink_name: str) -> SinkSettings:
    servers = options.bootstrap_servers()
    options.flag("includeHeaders", False)
    given = options.kafka_settings(_REFUSED)
    token_source = take_token_source(given, servers)
    kafka = _known(given)
    settings = SinkSettings(
        topic=options.text("topic"),
        delivery=delivery,
        transactional_id=transactional_id,
        state_topic=options.text("stateTopic") or DEFAULT_STATE_TOPIC,
        sink_name=sink_name,
        kafka=tuple(sorted(kafka.items())),
        checkpoint=options.text("checkpointLocation"),
        plan=options.text(PLAN_OPTION),
        batch_number=options.number(BATCH_OPTION, at_least=0),
        skips_repeated=options.one_of("onRepeatedBatch", _ON_REPEATED, _REFUSE) == _SKIP,
        token_source=token_source,
    )
    _check_producer(settings)
    return settings


def _known(given: dict[str, str]) -> dict[str, str]:
    """The known producer settings. Unknown ones are logged as in Kafka's clients: jobs share them with sources."""
    security_settings(given)
    known = {name: value for name, value in given.items() if name in ProducerSettings.settings}
    for name in given.keys() - known.keys():
        _warn(name)
    partitioner = known.get("partitioner.class", "")
    if partitioner in _JAVA_PARTITIONERS:
        del known["partitioner.class"]
        known.update(_JAVA_PARTITIONERS[partitioner])
    return known


@cache
def _warn(name: str) -> None:
    """Logged once per process, because the options of a stream are read for every batch."""
    advice = advice_about(name, ProducerSettings.settings, "'kafka.{}'")
    LOG.warning("option 'kafka.%s' is not a producer setting and has no effect%s", name, advice and f"; {advice}")


def _check_producer(settings: SinkSettings) -> None:
    try:
        producer = settings.producer_settings()
    except ClientConfigError as error:
        raise OptionError(f"an option 'kafka.…' cannot be used: {error}") from None
    if settings.delivery == AT_LEAST_ONCE:
        return
    if producer.acks != _ACKS_ALL:
        raise OptionError(f"option 'kafka.acks' is {producer.acks}: delivery={settings.delivery} needs acks=all")
    if not producer.enable_idempotence:
        raise OptionError(f"option 'kafka.enable.idempotence' is false: delivery={settings.delivery} needs it")
