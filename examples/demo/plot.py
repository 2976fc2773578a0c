"""What the demo draws: throughput and lag over time, as a picture and in the terminal.

Both show the same two curves: how fast records came in and were processed, and how many were waiting. matplotlib and
plotext are imported when something is drawn.
"""

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

_PRODUCED: Final = "#2a78b8"
_PROCESSED: Final = "#d9622b"
_LAG: Final = "#7a4fa3"
_SMOOTH_S: Final = 1.5
_INSTANT_S: Final = 0.001
_TERMINAL_SIZE: Final = (96, 26)


class Sample(NamedTuple):
    """What had happened after so many seconds."""

    seconds: float
    produced: int
    processed: int

    @property
    def lag(self) -> int:
        """Records that are there and were not processed yet."""
        return max(0, self.produced - self.processed)


class Span(NamedTuple):
    """A time worth a shade across the picture."""

    start: float
    end: float
    text: str


def rates(samples: Sequence[Sample]) -> tuple[list[float], list[float], list[float]]:
    """Times, and records a second produced and processed.

    What was produced is counted over windows of a second or so. Batches finish all at once: the records of one are
    spread over the time since the one before.
    """
    times, produced, processed = [], [], []
    first = 0
    pace = _batch_rates(samples)
    for index, sample in enumerate(samples[1:], start=1):
        while first < index - 1 and sample.seconds - samples[first].seconds > _SMOOTH_S:
            first += 1
        elapsed = max(sample.seconds - samples[first].seconds, _INSTANT_S)
        times.append(sample.seconds)
        produced.append((sample.produced - samples[first].produced) / elapsed)
        processed.append(pace[index])
    return times, produced, processed


def _batch_rates(samples: Sequence[Sample]) -> list[float]:
    """For each sample the rate of the batch that was being processed then; 0 after the last."""
    found = [0.0] * len(samples)
    start = 0
    for index in range(1, len(samples)):
        done = samples[index].processed - samples[start].processed
        if done:
            rate = done / max(samples[index].seconds - samples[start].seconds, _INSTANT_S)
            found[start + 1 : index + 1] = [rate] * (index - start)
            start = index
    return found


def draw_picture(path: str, samples: Sequence[Sample], spans: Sequence[Span], title: str) -> None:
    """A PNG of two panels over one axis of time."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    figure, (above, below) = plt.subplots(
        2, 1, sharex=True, figsize=(10, 6), height_ratios=(3, 2), layout="constrained"
    )
    times, produced, processed = rates(samples)
    above.plot(times, produced, color=_PRODUCED, linewidth=2, label="produced")
    above.plot(times, processed, color=_PROCESSED, linewidth=2, drawstyle="steps-pre", label="processed, exactly once")
    above.fill_between(times, processed, color=_PROCESSED, alpha=0.12, step="pre")
    above.set_ylabel("records / s")
    above.legend(loc="upper right", frameon=False)
    above.set_title(title, loc="left", fontsize=12)
    lag = [sample.lag for sample in samples]
    below.plot([sample.seconds for sample in samples], lag, color=_LAG, linewidth=2)
    below.fill_between([sample.seconds for sample in samples], lag, color=_LAG, alpha=0.15)
    below.set_ylabel("lag, records")
    below.set_xlabel("seconds")
    for panel in (above, below):
        panel.set_ylim(bottom=0)
        panel.margins(x=0)
        panel.grid(alpha=0.25)
        panel.spines[["top", "right"]].set_visible(False)
        panel.yaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    _shade(above, below, spans)
    figure.savefig(path, dpi=130)
    plt.close(figure)


def _shade(above: Any, below: Any, spans: Sequence[Span]) -> None:
    for span in spans:
        for panel in (above, below):
            panel.axvspan(span.start, span.end, color="#888888", alpha=0.18, linewidth=0)
        above.annotate(
            span.text,
            ((span.start + span.end) / 2, 1.0),
            xycoords=("data", "axes fraction"),
            xytext=(0, -6),
            textcoords="offset points",
            ha="center",
            va="top",
            fontsize=9,
            color="#444444",
            bbox={"facecolor": "white", "alpha": 0.75, "linewidth": 0, "pad": 1.5},
        )


def draw_in_terminal(samples: Sequence[Sample], *, is_colored: bool) -> str:
    """The same as text."""
    import plotext

    times, produced, processed = rates(samples)
    figure = plotext.figure
    figure.clear()
    figure.theme("default" if is_colored else "colorless")
    figure.plot_size(*_TERMINAL_SIZE)
    figure.subplots(2, 1)
    above, below = figure.subplot(1, 1), figure.subplot(2, 1)
    above.title("records / s")
    for numbers, label, color in ((produced, "produced", "blue"), (processed, "processed", "orange")):
        above.draw(above.signal(times, numbers, marker=plotext.marker("braille", color)).lines().label(label))
    below.title("lag, records")
    seconds, lags = [sample.seconds for sample in samples], [sample.lag for sample in samples]
    below.draw(below.signal(seconds, lags, marker=plotext.marker("braille", "magenta")).lines())
    below.label("seconds")
    for panel, numbers in ((above, [*produced, *processed]), (below, [float(lag) for lag in lags])):
        panel.canvas("default")
        _label_axes(panel, max(seconds), max(numbers, default=0.0))
    above.legend(x=max(seconds), y=max([*produced, *processed, 1.0]), ha="right", relative=True)
    text = str(figure.build())
    figure.clear()
    return text if is_colored else plotext.uncolorize(text)


def _label_axes(panel: Any, seconds: float, top: float) -> None:
    """Round numbers, written out: by itself the terminal gets 3.3e4."""
    step = _round_step(top / 4)
    heights = [step * index for index in range(5) if step * index <= max(top, step) * 1.05]
    panel.ruler("y").lim(0, max(top, step))
    panel.ruler("y").ticks(heights, [f"{height:,.0f}" for height in heights])
    every = _round_step(seconds / 6)
    times = [every * index for index in range(int(seconds / every) + 1)]
    panel.ruler("x").ticks(times, [f"{time:g}" for time in times])


def _round_step(size: float) -> float:
    """The smallest of 1, 2, 5, 10, 20, 50 … that is not less."""
    step = 1.0
    while step < size:
        step *= 2.5 if str(step).startswith("2") else 2.0
    return step
