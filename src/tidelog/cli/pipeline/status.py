"""`tidelog pipeline status`."""

from typing import Annotated, Any, Final

import typer

from tidelog.cli._clients import client_settings
from tidelog.cli._options import BootstrapServer, CommandConfig, Format, OutputFormat
from tidelog.cli.output import print_json, print_line, print_table
from tidelog.client.aio.admin.admin import AdminSettings
from tidelog.client.cluster import Cluster
from tidelog.spark.pipeline.running.status_topic import Seen, read_statuses

EXAMPLE: Final = "tidelog pipeline status clean-orders"

UNHEALTHY: Final = 1


def status(
    names: Annotated[
        list[str] | None, typer.Argument(help="Pipelines by name.", metavar="NAME...", show_default="all")
    ] = None,
    bootstrap_server: BootstrapServer = None,
    command_config: CommandConfig = None,
    output: OutputFormat = Format.TEXT,
) -> None:
    """Show the state, lag and last failure of pipelines, wherever they run.

    `tidelog pipeline run` writes it to a topic of the cluster, every five seconds and with every change. A pipeline
    whose process was killed is `lost`. Exit code 1: a named pipeline has failed, is lost or has never run.
    """
    with Cluster(client_settings(bootstrap_server, command_config, AdminSettings)) as cluster:
        seen = read_statuses(cluster)
    shown = [each for each in seen if not names or each.pipeline in names]
    unknown = [name for name in names or () if name not in {each.pipeline for each in seen}]
    if output is Format.JSON:
        print_json([_as_json(each) for each in shown])
    elif shown:
        print_table(_HEADINGS, [_row(each) for each in shown])
        rules = [row for each in shown for row in _rule_rows(each)]
        if rules:
            print_line("")
            print_table(_RULE_HEADINGS, rules)
    for name in unknown if output is Format.TEXT else ():
        print_line(f"{name}: no status: it was never run here by `tidelog pipeline run`")
    if unknown or (names and not all(each.is_healthy for each in shown)):
        raise typer.Exit(UNHEALTHY)


_HEADINGS: Final = ("PIPELINE", "STATE", "LAG", "BATCH", "ROWS/S", "RESTARTS", "SEEN", "WHERE", "LAST-FAILURE")


def _row(each: Seen) -> tuple[object, ...]:
    facts, queries = each.facts, each.facts.get("queries") or []
    rate = sum(float(query.get("processed_rows_per_second") or 0) for query in queries)
    batch = max((int(query.get("batch_id") or 0) for query in queries), default=None)
    return (
        each.pipeline,
        each.state,
        _or_dash(facts.get("lag_records")),
        _or_dash(batch),
        f"{rate:,.0f}",
        facts.get("restarts") or 0,
        f"{each.age_s:.0f} s ago",
        f"{facts.get('host')} pid {facts.get('pid')}",
        facts.get("error") or "-",
    )


_RULE_HEADINGS: Final = ("PIPELINE", "EXPECTATION", "ROWS", "FAILED", "SHARE")


def _rule_rows(each: Seen) -> list[tuple[object, ...]]:
    """What its expectations have found since its process started."""
    return [
        (each.pipeline, rule.rule, f"{rule.count.evaluated:,}", f"{rule.count.failed:,}", f"{rule.count.share:.2%}")
        for rule in each.rules
    ]


def _or_dash(value: object) -> object:
    return "-" if value is None else value


def _as_json(each: Seen) -> dict[str, Any]:
    return {**each.facts, "pipeline": each.pipeline, "state": each.state, "age_s": round(each.age_s, 3)}
