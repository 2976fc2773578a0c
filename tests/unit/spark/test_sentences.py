"""Errors that were foreseen come without frames and causes; others keep them."""

import traceback
from collections.abc import Iterator

import pytest

from tidelog.spark.options import OptionError
from tidelog.spark.sentences import plainly
from tidelog.spark.sink.errors import SinkError


def _shown(error: BaseException) -> str:
    return "".join(traceback.format_exception(error))


def _deep(error: Exception) -> None:
    try:
        raise OSError("the cause")
    except OSError as cause:
        raise error from cause


@pytest.mark.parametrize("error", [OptionError("set x"), SinkError("set y")])
def test_a_sentence_stands_alone(error: Exception) -> None:
    with pytest.raises(type(error)) as caught, plainly():
        _deep(error)

    shown = _shown(caught.value)
    assert str(error) in shown
    assert "_deep" not in shown
    assert "the cause" not in shown


def test_an_unexpected_error_keeps_its_frames() -> None:
    with pytest.raises(ZeroDivisionError) as caught, plainly():
        _deep(ZeroDivisionError())

    assert "_deep" in _shown(caught.value)
    assert "the cause" in _shown(caught.value)


def test_it_decorates_functions_and_stands_in_generators() -> None:
    @plainly()
    def refuse(option: str) -> None:
        _deep(OptionError(option))

    def rows() -> Iterator[int]:
        with plainly():
            yield 1
            _deep(OptionError("b"))

    with pytest.raises(OptionError, match="a") as caught:
        refuse("a")
    assert "_deep" not in _shown(caught.value)
    with pytest.raises(OptionError, match="b") as caught:
        list(rows())
    assert "_deep" not in _shown(caught.value)
