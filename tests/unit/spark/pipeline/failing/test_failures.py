"""A failure in a sentence, out of what Spark says."""

from hypothesis import given
from hypothesis import strategies as st

from tidelog.spark.pipeline.failing.failures import in_a_sentence

PYTHON = """[STREAM_FAILED] Query [id = 1] terminated with exception: Job aborted due to stage failure: Task 0
in stage 1.0 failed 1 times: org.apache.spark.api.python.PythonException: Traceback (most recent call last):
  File "/a/worker.py", line 12, in main
    process()
tidelog.spark.options.OptionError: option 'kafka.acks' is 1: delivery=exactly-once needs acks=all

\tat org.apache.spark.api.python.BasePythonRunner.compute(PythonRunner.scala:1)
"""


def test_a_python_error_is_found_in_the_jvms() -> None:
    assert in_a_sentence(PYTHON) == "OptionError: option 'kafka.acks' is 1: delivery=exactly-once needs acks=all"


def test_a_jvm_error_is_its_first_line() -> None:
    text = (
        "[STREAM_FAILED] Query [id = 1] terminated with exception: java.io.IOException: disk full\n\tat x.y(z.java:1)"
    )
    assert in_a_sentence(text) == "IOException: disk full"


def test_what_the_bridge_to_java_says_is_passed_over() -> None:
    text = (
        "An error occurred while calling o31.start.\n: java.io.IOException: mkdir of file:/x failed\n\tat x.y(z.java:1)"
    )
    assert in_a_sentence(text) == "IOException: mkdir of file:/x failed"


def test_a_row_that_stopped_the_query_is_reported_as_it_is() -> None:
    text = "[USER_RAISED_EXCEPTION] a row failed (topic orders partition 0): bad SQLSTATE: P0001\n\tat x.y(z.java:1)"
    assert in_a_sentence(text) == "a row failed (topic orders partition 0): bad"


def test_an_error_without_text_is_its_type() -> None:
    assert in_a_sentence(ValueError()) == "ValueError"


def test_an_error_of_a_step_names_the_step() -> None:
    error = ZeroDivisionError("division by zero")
    error.add_note("step add_tax")
    assert in_a_sentence(error) == "step add_tax: ZeroDivisionError: division by zero"


@given(st.text())
def test_any_text_makes_a_short_line(text: str) -> None:
    line = in_a_sentence(ValueError(text))
    assert 0 < len(line) <= 600
    assert "\n" not in line
