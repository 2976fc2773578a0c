"""Mistakes in a pipeline that need the cluster: missing topics. Pure, over a `Survey`."""

from collections.abc import Iterator

from tidelog.spark.pipeline.checks.definition import Problem
from tidelog.spark.pipeline.checks.survey import Survey
from tidelog.spark.pipeline.definition.endpoints import Topic, table_source
from tidelog.spark.pipeline.definition.pipeline import Pipeline, topic_sinks
from tidelog.spark.pipeline.failing.routing import ladder_of


def check_cluster(pipeline: Pipeline, survey: Survey) -> list[Problem]:
    """Every mistake that can be found with the cluster."""
    return [*_sources(pipeline, survey), *_sinks(pipeline, survey), *_own(pipeline, survey)]


def _sources(pipeline: Pipeline, survey: Survey) -> Iterator[Problem]:
    for name in survey.source_topics:
        if not survey.has(name):
            yield Problem("source", _missing(name))
    if isinstance(pipeline.source, Topic) and pipeline.source.pattern is not None and not survey.source_topics:
        yield Problem("source", f"no topic matches the pattern {pipeline.source.pattern!r} yet", is_warning=True)
    for table, given in pipeline.tables.items():
        source = table_source(given)
        if isinstance(source, Topic):
            for name in source.names:
                if not survey.has(name):
                    yield Problem(f"tables[{table}]", _missing(name))


def _sinks(pipeline: Pipeline, survey: Survey) -> Iterator[Problem]:
    for sink in topic_sinks(pipeline):
        for name in sink.names:
            if not survey.has(name):
                yield Problem("sink", _missing(name))


def _own(pipeline: Pipeline, survey: Survey) -> Iterator[Problem]:
    ladder = ladder_of(pipeline)
    for name in ladder.own_topics if ladder else ():
        if not survey.has(name):
            yield Problem("on_failure", f"topic {name!r} will be created by the first run", is_warning=True)
    if ladder is not None and ladder.keys_topic is not None and len(survey.there.get(ladder.keys_topic, [0])) != 1:
        yield Problem("on_failure", f"topic {ladder.keys_topic!r} must have one partition")


def _missing(name: str) -> str:
    return f"topic {name!r} does not exist: tidelog topic create {name}"
