"""The program `tidelog`, also `python -m tidelog`.

`serve` is dispatched before anything else is imported, because a broker that starts in a blink cannot afford a command
line framework; every other command goes through `tidelog.cli.app`.
"""

import sys
from collections.abc import Sequence

INTERRUPTED_EXIT_CODE = 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return the exit code: 0 done, 1 failed, 2 wrongly used or configured."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    if words[:1] == ["serve"]:
        _end_quietly_on_signals()
        from tidelog.cli.serve import main as serve

        return serve(words[1:])
    if words[:1] == ["--version"]:
        from tidelog import __version__
        from tidelog.records.scanner import HAS_SPEEDUPS

        sys.stdout.write(f"tidelog {__version__} ({'with' if HAS_SPEEDUPS else 'without'} C speedups)\n")
        return 0
    try:
        # A command takes part of a second to import: an interrupt meanwhile has nothing to undo.
        from tidelog.cli.app import main as run
    except KeyboardInterrupt:
        return INTERRUPTED_EXIT_CODE
    except ModuleNotFoundError as error:
        if error.name not in {"typer", "rich"}:
            raise
        sys.stderr.write(f"tidelog: this command needs {error.name}: pip install 'tidelog[cli]'\n")
        return 1
    return run(words)


def _end_quietly_on_signals() -> None:
    """Until the broker handles signals itself, there is nothing to stop in order: end, and print no traceback."""
    # The module below `signal`, which is built in: importing the other takes as long as what this is to protect.
    import _signal  # type: ignore[import-not-found]
    from os import _exit

    for number in (_signal.SIGINT, _signal.SIGTERM):
        # A shell starts background jobs with SIGINT ignored, and so it stays.
        if _signal.getsignal(number) is not _signal.SIG_IGN:
            _signal.signal(number, lambda _number, _frame: _exit(0))


if __name__ == "__main__":
    sys.exit(main())
