"""`tidelog pipeline new`: a pipeline, its test and a few records, to start from."""

import keyword
import re
from pathlib import Path
from string import Template
from typing import Annotated, Final

import typer

from tidelog.cli.errors import CommandError
from tidelog.cli.output import print_line

EXAMPLE: Final = "tidelog pipeline new orders"

_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9_-]*")

_PIPELINE: Final = '''\
"""The pipeline $name: from the topic $name to $name.clean; rows that cannot be used go to $name.dlq.

Try it with a broker of its own, which is gone afterwards:

    $trial
"""

from tidelog.spark.pipeline import DeadLetters, Pipeline, expect, pack_json, parse_json, row_step, topic


@row_step("total double", columns=["price", "quantity"])
def with_total(row: dict) -> dict:
    """A function of one row. What it raises is the failure of this row, and of no other."""
    return {"total": row["price"] * row["quantity"]}


pipeline = Pipeline(
    "$name",
    source=topic("$name"),
    steps=[
        parse_json("id long, price double, quantity int"),
        expect("quantity > 0", name="positive quantity", on_failure="dead_letter"),
        with_total,
        pack_json("id", "total", key="id"),
    ],
    sink=topic("$name.clean"),
    on_failure=DeadLetters("$name.dlq"),
)

if __name__ == "__main__":
    pipeline.run()
'''

_TEST: Final = '''\
"""Tests of the pipeline $name: pytest test_$module.py"""

from $module import pipeline
from tidelog.testing.pipelines import run_on_broker, run_rows


def test_a_total_is_computed():
    result = run_rows(pipeline, [{"id": 1, "price": 2.5, "quantity": 4}])
    assert result.values == [{"id": 1, "total": 10.0}]


def test_rows_that_cannot_be_used_are_dead_letters():
    result = run_rows(pipeline, [{"id": 2, "price": 2.5, "quantity": 0}, "not JSON"])
    assert result.values == []
    assert [failed.type for failed in result.failed] == ["ExpectationFailed", "RowRejected"]


def test_it_runs_on_a_broker():
    """Topics, transactions and dead letters included; the broker is part of this process."""
    result = run_on_broker(pipeline, [{"id": 1, "price": 2.5, "quantity": 4}, "not JSON"])
    assert result.values == [{"id": 1, "total": 10.0}]
    assert [failed.value for failed in result.failed] == [b"not JSON"]
'''

_RECORDS: Final = """\
{"id": 1, "price": 2.5, "quantity": 4}
{"id": 2, "price": 9.99, "quantity": 1}
{"id": 3, "price": 1.0, "quantity": 0}
"""

_TRIAL: Final = (
    "tidelog run --topic $name --topic $name.clean -- sh -c "
    "'tidelog produce $name < $module.jsonl && tidelog pipeline run $module.py --once --checkpoint trial-checkpoint && "
    "tidelog consume $name.clean --from-beginning --until-end; rm -rf trial-checkpoint'"
)


def new(
    name: Annotated[str, typer.Argument(help="The pipeline's name: letters, digits, _ and -.", metavar="NAME")],
    directory: Annotated[Path, typer.Option(help="Where the files are written; it is made if need be.")] = Path(),
) -> None:
    """Write a pipeline, its test and some records to try it with.

    The test passes as it is written, and both run without a broker to be set up first. No file is overwritten.
    """
    module = name.replace("-", "_")
    if _NAME.fullmatch(name) is None or keyword.iskeyword(module):
        raise typer.BadParameter(f"{name!r} must begin with a letter and have only letters, digits, _ and -")
    words = {"name": name, "module": module}
    trial = Template(_TRIAL).substitute(words)
    files = {
        f"{module}.py": Template(_PIPELINE).substitute(words, trial=trial),
        f"test_{module}.py": Template(_TEST).substitute(words),
        f"{module}.jsonl": _RECORDS,
    }
    for file in files:
        if (directory / file).exists():
            raise CommandError(f"{directory / file} is there already: choose another name or --directory")
    try:
        directory.mkdir(parents=True, exist_ok=True)
        for file, text in files.items():
            (directory / file).write_text(text, encoding="utf-8")
    except OSError as error:
        raise CommandError(f"{directory}: {error.strerror}") from None
    there = "" if directory == Path() else f"cd {directory}\n"
    print_line(f"{there}pytest test_{module}.py\n{trial}")
