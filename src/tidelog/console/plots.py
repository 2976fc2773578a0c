"""Plots of series as inline SVG, made on the server. Pure.

Colours come from the style sheet by class, so that plots follow the light and the dark theme. Nothing in a plot is
text from outside but the label, which is escaped.
"""

from collections.abc import Collection, Sequence
from datetime import UTC, datetime
from html import escape
from itertools import pairwise
from typing import Final

from tidelog.console.samples import Point

WIDTH: Final = 720
HEIGHT: Final = 200
_LEFT: Final = 52
_RIGHT: Final = 10
_TOP: Final = 12
_BOTTOM: Final = 26
_LINES: Final = 4


def area_plot(series: Collection[Point], label: str, unit: str) -> str:
    """A plot of one series with axes; a sentence in its place while there are fewer than two points."""
    points = list(series)
    if len(points) < 2:
        return (
            f'<p class="plot-empty" role="img" aria-label="{escape(label)}: no samples yet">'
            "The first points appear after a few seconds.</p>"
        )
    top = _nice_ceiling(max(each.value for each in points))
    first, last = points[0].at, points[-1].at
    span = max(last - first, 1e-9)
    across, down = WIDTH - _LEFT - _RIGHT, HEIGHT - _TOP - _BOTTOM
    places = [
        (_LEFT + (each.at - first) / span * across, _TOP + down - min(each.value / top, 1.0) * down) for each in points
    ]
    latest = compact(points[-1].value)
    described = escape(f"{label}: {latest} {unit} now, at most {compact(max(each.value for each in points))} {unit}")
    return "".join(
        [
            f'<svg class="plot" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{described}">',
            f"<title>{described}</title>",
            *_grid(top, across, down),
            f'<path class="plot-area" d="{_path(places)} L{places[-1][0]:.1f} {_TOP + down} L{_LEFT} {_TOP + down}Z"/>',
            f'<path class="plot-line" d="{_path(places)}"/>',
            f'<circle class="plot-dot" cx="{places[-1][0]:.1f}" cy="{places[-1][1]:.1f}" r="3.5"/>',
            _time(_LEFT, first, "start"),
            _time(_LEFT + across / 2, first + span / 2, "middle"),
            _time(_LEFT + across, last, "end"),
            "</svg>",
        ]
    )


def sparkline(series: Collection[Point], label: str) -> str:
    """A small line without axes, for a row of a table; empty while there are fewer than two points."""
    points = list(series)[-60:]
    if len(points) < 2:
        return ""
    top = max(each.value for each in points) or 1.0
    step = 96 / (len(points) - 1)
    places = [(2 + index * step, 22 - each.value / top * 18) for index, each in enumerate(points)]
    return (
        f'<svg class="spark" viewBox="0 0 100 24" role="img" aria-label="{escape(label)}">'
        f'<path class="plot-line" d="{_path(places)}"/></svg>'
    )


def compact(value: float) -> str:
    """A number in few characters: 950, 1.2k, 3.4M."""
    for limit, suffix in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= limit:
            return f"{value / limit:.1f}".removesuffix(".0") + suffix
    return f"{value:.1f}".removesuffix(".0") if abs(value) < 100 else f"{value:.0f}"


def _grid(top: float, across: int, down: int) -> Sequence[str]:
    parts = []
    for index in range(_LINES + 1):
        y = _TOP + down - down * index / _LINES
        parts.append(f'<line class="plot-grid" x1="{_LEFT}" x2="{_LEFT + across}" y1="{y:.1f}" y2="{y:.1f}"/>')
        text = compact(top * index / _LINES)
        parts.append(f'<text class="plot-text" x="{_LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{text}</text>')
    return parts


def _time(x: float, at: float, anchor: str) -> str:
    text = datetime.fromtimestamp(at, UTC).strftime("%H:%M:%S")
    return f'<text class="plot-text" x="{x:.1f}" y="{HEIGHT - 6}" text-anchor="{anchor}">{text}</text>'


def _path(places: Sequence[tuple[float, float]]) -> str:
    """Straight lines; points closer than half a unit are joined, because no eye could tell them apart."""
    kept = [places[0]]
    kept += [here for before, here in pairwise(places) if here[0] - kept[-1][0] >= 0.5 or here[1] != before[1]]
    return "M" + " L".join(f"{x:.1f} {y:.1f}" for x, y in kept)


def _nice_ceiling(value: float) -> float:
    """The next of 1, 2, 4, 5, 8 and 10 times a power of ten."""
    if value <= 0:
        return 1.0
    power = 1.0
    while power * 10 < value:
        power *= 10
    while power > value:
        power /= 10
    return next((power * factor for factor in (1, 2, 4, 5, 8) if power * factor >= value), power * 10)
