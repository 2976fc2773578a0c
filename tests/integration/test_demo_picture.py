"""The picture of the demo. On a machine that has drawn none before, matplotlib asks `fc-list` for the fonts."""

from pathlib import Path

from tidelog.examples.demo.plot import Sample, Span, draw_picture


def test_a_picture_is_drawn(tmp_path: Path) -> None:
    samples = [Sample(0.5 * index, 1000 * index, 800 * max(0, index - 2)) for index in range(20)]
    path = tmp_path / "demo.png"
    draw_picture(str(path), samples, [Span(2, 3, "stopped")], "title")
    assert path.read_bytes().startswith(b"\x89PNG")
