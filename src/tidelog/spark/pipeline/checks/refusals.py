"""What cannot be together in a pipeline, as one table: checks, the start and `docs/pipelines/state.md` read it.

A `Trait` is something that a pipeline has or is asked for; a `Refusal` is a set of them and the reason. Traits of a
definition are found here. That a step keeps state is seen in Spark's plan (`checks.state`); that the pipeline is to run
in Spark Connect or Declarative Pipelines is known where it starts. Pure.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from enum import Enum
from typing import Final, NamedTuple

from tidelog.spark.pipeline.definition.endpoints import Delta, Files, Iceberg, Refreshed, Sink, SqlTable, Topic
from tidelog.spark.pipeline.definition.pipeline import Pipeline
from tidelog.spark.pipeline.definition.policy import Policy, RetryLadder
from tidelog.spark.pipeline.definition.steps import BatchStep, Expect, RowStep, has_limits, name_of

_ASIDE: Final = re.compile(r"(, not | \()\{\w+(!r)?\}\)?| not \{\w+\}")
"""What a reason names beside what it says: the value that was found."""


class Trait(Enum):
    """Something that a pipeline has, or that is asked of it; the value is how the documentation names it."""

    POLICY = "`on_failure`"
    RETRIES = "`RetryLadder`"
    ORDER = "`keep_order_by_key`"
    NO_RECORDS = "a source that is not a topic"
    FILES = "a sink of files"
    TABLE = "`delta(…)` or `iceberg(…)` as a sink"
    OTHER_SINK = "a sink that is not a topic"
    UPDATES = "`output_mode` `update` or `complete`"
    REFRESHED = "a refreshed table"
    ROW_FUNCTION = "`row_step` or `batch_step`"
    LIMIT = "an expectation with `fail_above`"
    STATE = "a step with state"
    ENGINE = "batches that need a function"
    CONNECT = "Spark Connect"
    DECLARED = "Declarative Pipelines"


class Refusal(NamedTuple):
    """Traits that cannot be together, the setting to change, and why. `{FILES}` stands for what has the trait."""

    together: frozenset[Trait]
    setting: str
    reason: str

    def sentence(self, found: Mapping[Trait, str]) -> str:
        """The reason, with the names of what is refused."""
        return self.reason.format(**{trait.name: text for trait, text in found.items()})


def _refusal(setting: str, reason: str, *together: Trait) -> Refusal:
    return Refusal(frozenset(together), setting, reason)


REFUSALS: Final = (
    _refusal(
        "on_failure",
        "{NO_RECORDS} has no records that could wait in topics: use DeadLetters(…), or topic(…) as the source",
        Trait.RETRIES,
        Trait.NO_RECORDS,
    ),
    _refusal(
        "sink",
        "{FILES} cannot be written exactly once with on_failure: write to a topic, then to files",
        Trait.POLICY,
        Trait.FILES,
    ),
    _refusal("on_failure", "on_failure needs output_mode='append', not {UPDATES!r}", Trait.POLICY, Trait.UPDATES),
    _refusal(
        "on_failure.keep_order_by_key",
        "keep_order_by_key needs a topic as the sink, not {OTHER_SINK}",
        Trait.ORDER,
        Trait.OTHER_SINK,
    ),
    _refusal(
        "sink",
        "{TABLE} takes output_mode='append', not {UPDATES!r}: use merge_changes(…) to update rows by key",
        Trait.TABLE,
        Trait.UPDATES,
    ),
    _refusal(
        "tables",
        "a refreshed table ({REFRESHED}) needs output_mode='append', not {UPDATES!r}",
        Trait.REFRESHED,
        Trait.UPDATES,
    ),
    _refusal(
        "sink",
        "{FILES} cannot be written exactly once with a refreshed table: write to a topic",
        Trait.REFRESHED,
        Trait.FILES,
    ),
    _refusal(
        "sink",
        "{FILES} is written by Spark, which cannot hold back a batch for {LIMIT}: write to a topic, then to files",
        Trait.LIMIT,
        Trait.FILES,
    ),
    _refusal(
        "tables",
        "tables that are refreshed need batches that are computed one by one",
        Trait.STATE,
        Trait.REFRESHED,
    ),
    _refusal(
        "on_failure.keep_order_by_key",
        "keep_order_by_key decides about each batch by itself",
        Trait.STATE,
        Trait.ORDER,
    ),
    _refusal(
        "steps",
        "{ROW_FUNCTION} would be called twice for each row, and may give another result the second time",
        Trait.STATE,
        Trait.POLICY,
        Trait.ROW_FUNCTION,
    ),
    _refusal(
        "sink",
        "{ENGINE}, and a function that is called for each batch knows neither its query nor its checkpoint there. "
        "Unset SPARK_REMOTE, and use --master",
        Trait.CONNECT,
        Trait.ENGINE,
    ),
    _refusal("sink", "its sinks must be topics", Trait.DECLARED, Trait.OTHER_SINK),
    _refusal(
        "steps",
        "its batches need a function (order by key, fail_above, or functions of DataFrames after steps that can fail); "
        "run it with "
        "`tidelog pipeline run`",
        Trait.DECLARED,
        Trait.ENGINE,
    ),
)
"""In the order in which they are reported."""


def traits_of(pipeline: Pipeline) -> dict[Trait, str]:
    """The traits of a definition, each with the first that has it."""
    found: dict[Trait, str] = {}
    for trait, text in _traits(pipeline):
        found.setdefault(trait, text)
    return found


def _traits_of_policy(policy: Policy | None) -> Iterator[tuple[Trait, str]]:
    if policy is not None:
        yield Trait.POLICY, "on_failure"
    if isinstance(policy, RetryLadder):
        yield Trait.RETRIES, "RetryLadder"
        if policy.keep_order_by_key:
            yield Trait.ORDER, "keep_order_by_key"


def _traits(pipeline: Pipeline) -> Iterator[tuple[Trait, str]]:
    yield from _traits_of_policy(pipeline.on_failure)
    if not isinstance(pipeline.source, Topic):
        yield Trait.NO_RECORDS, str(pipeline.source)
    for sink in pipeline.sinks:
        if not isinstance(sink, Topic):
            yield Trait.OTHER_SINK, str(sink)
        if isinstance(sink, Files):
            yield Trait.FILES, str(sink)
        if isinstance(sink, Delta | Iceberg) or (isinstance(sink, SqlTable) and not sink.key):
            yield Trait.TABLE, str(sink)
    if pipeline.output_mode != "append":
        yield Trait.UPDATES, pipeline.output_mode
    for name, table in pipeline.tables.items():
        if isinstance(table, Refreshed):
            yield Trait.REFRESHED, name
    for step in pipeline.steps:
        if isinstance(step, RowStep | BatchStep):
            yield Trait.ROW_FUNCTION, name_of(step)
        if isinstance(step, Expect) and step.fail_above is not None:
            yield Trait.LIMIT, name_of(step)


def refused(found: Mapping[Trait, str], because_of: Trait | None = None) -> list[tuple[str, str]]:
    """The settings and the reasons of what these traits make impossible; `because_of` chooses the reasons with it."""
    return [
        (each.setting, each.sentence(found))
        for each in REFUSALS
        if each.together <= found.keys() and (because_of is None or because_of in each.together)
    ]


def why_engine(pipeline: Pipeline, sinks: Sequence[Sink], *, is_computed: bool) -> str:
    """Why a function has to be called for each batch that a query writes to `sinks`."""
    others = [sink for sink in sinks if not isinstance(sink, Topic)]
    if others:
        return f"{others[0]} is written batch by batch"
    if is_computed and has_limits(pipeline.steps):
        return "fail_above holds a batch back until its rows are counted"
    if is_computed:
        return "topics are written batch by batch in output_mode='update'"
    found = traits_of(pipeline)
    if Trait.REFRESHED in found:
        return "a table is refreshed"
    if Trait.ORDER in found:
        return "keep_order_by_key decides batch by batch"
    return "failed rows are set aside before a function of DataFrames"


def refusals_table() -> str:
    """The table of `docs/pipelines/state.md`."""
    names = {f"{{{trait.name}}}": trait.value for trait in Trait}
    lines = ["| not together | because |", "|---|---|"]
    for each in REFUSALS:
        reason = _ASIDE.sub("", each.reason)
        for placeholder, shown in names.items():
            reason = reason.replace(placeholder, shown)
        together = " + ".join(trait.value for trait in Trait if trait in each.together)
        lines.append(f"| {together} | {reason} |")
    return "\n".join(lines) + "\n"
