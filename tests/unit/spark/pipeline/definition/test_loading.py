"""Finding pipelines in files, good and bad."""

from pathlib import Path

import pytest

from tidelog.spark.pipeline import PipelineError
from tidelog.spark.pipeline.definition.loading import load_pipeline, load_pipelines, split_spec

SOUND = """
from tidelog.spark.pipeline import Pipeline, topic
first = Pipeline("one", source=topic("a"), sink=topic("b"))
if __name__ == "__main__":
    raise SystemExit("run")
"""


def _file(tmp_path: Path, text: str, name: str = "pipe.py") -> Path:
    path = tmp_path / name
    path.write_text(text)
    return path


def test_a_file_is_loaded_without_running_its_main(tmp_path: Path) -> None:
    assert load_pipeline(str(_file(tmp_path, SOUND))).name == "one"


def test_one_of_several_is_chosen_by_variable_or_name(tmp_path: Path) -> None:
    path = _file(tmp_path, SOUND + 'second = Pipeline("two", source=topic("a"), sink=topic("b"))\n')
    assert load_pipeline(f"{path}:second").name == "two"
    assert load_pipeline(f"{path}:two").name == "two"
    with pytest.raises(PipelineError, match="several pipelines: choose one"):
        load_pipeline(str(path))
    with pytest.raises(PipelineError, match="has no pipeline 'three'; it has first, second"):
        load_pipeline(f"{path}:three")


def test_what_a_file_prints_is_no_result(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    load_pipelines(_file(tmp_path, SOUND + "print('hello')\n"))
    assert capsys.readouterr() == ("", "hello\n")


def test_steps_may_import_their_neighbours(tmp_path: Path) -> None:
    _file(tmp_path, "def clean(rows):\n    return rows\n", "neighbour_of_pipe.py")
    text = SOUND.replace('sink=topic("b")', 'sink=topic("b"), steps=[clean]')
    path = _file(tmp_path, "from neighbour_of_pipe import clean\n" + text)
    assert len(load_pipelines(path)["first"].steps) == 1


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("def f(:\n", r"pipe.py, line 1: "),
        ("\nx = 1\nraise ValueError('no')\n", r"pipe.py, line 3: ValueError: no"),
        ("import no_such_module_anywhere\n", r"line 1: ModuleNotFoundError: No module named 'no_such_module_anywhere'"),
        ("raise SystemExit(3)\n", r"line 1: SystemExit: 3"),
        ("x = 1\n", r"defines no pipeline: it needs a line like `pipeline = Pipeline\(…\)`"),
    ],
)
def test_a_file_that_cannot_be_used_is_reported_in_a_sentence(tmp_path: Path, text: str, expected: str) -> None:
    with pytest.raises(PipelineError, match=expected):
        load_pipelines(_file(tmp_path, text))


def test_the_line_is_reported_also_if_the_path_is_relative(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _file(tmp_path, "\nraise ValueError('no')\n")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(PipelineError, match=r"^pipe.py, line 2: ValueError: no$"):
        load_pipelines(Path("pipe.py"))


def test_a_file_that_is_not_there_or_no_python_is_named(tmp_path: Path) -> None:
    with pytest.raises(PipelineError, match="no such file"):
        load_pipeline(str(tmp_path / "none.py"))
    with pytest.raises(PipelineError, match=r"must end in \.py"):
        load_pipeline(str(_file(tmp_path, SOUND, "pipe.txt")))


def test_a_colon_in_a_directory_is_no_name() -> None:
    assert split_spec("a:b/pipe.py") == (Path("a:b/pipe.py"), None)
    assert split_spec("pipe.py:two") == (Path("pipe.py"), "two")
