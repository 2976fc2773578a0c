"""`tidelog pipeline`: check, plan, run and list pipelines, and send their dead letters back."""

import typer

from tidelog.cli._verbs import noun, verb
from tidelog.cli.pipeline import (
    backfill,
    compact,
    describe,
    list_,
    new,
    package,
    plan,
    publish,
    replay,
    run,
    status,
    validate,
)


def register(application: typer.Typer) -> None:
    """Add the noun and its verbs."""
    pipeline = noun(
        application, "pipeline", "Write, check, plan and run Spark pipelines, and send their dead letters back."
    )
    verb(pipeline, "new", new.new, new.EXAMPLE)
    verb(pipeline, "run", run.run, run.EXAMPLE)
    verb(pipeline, "status", status.status, status.EXAMPLE)
    verb(pipeline, "plan", plan.plan, plan.EXAMPLE)
    verb(pipeline, "validate", validate.validate, validate.EXAMPLE)
    verb(pipeline, "list", list_.list_pipelines, list_.EXAMPLE)
    verb(pipeline, "describe", describe.describe, describe.EXAMPLE)
    verb(pipeline, "package", package.package, package.EXAMPLE)
    verb(pipeline, "replay", replay.replay, replay.EXAMPLE)
    verb(pipeline, "backfill", backfill.backfill, backfill.EXAMPLE)
    verb(pipeline, "compact", compact.compact, compact.EXAMPLE)
    verb(pipeline, "publish", publish.publish, publish.EXAMPLE)
