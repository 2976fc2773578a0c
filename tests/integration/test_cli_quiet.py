"""While a command shows its own lines, what its children and loggers print goes to a file."""

import os
import subprocess
import sys


def test_children_and_loggers_write_to_a_file_while_we_write_to_the_terminal(tmp_path):
    program = (
        "import logging, os, sys, warnings\n"
        "from tidelog.cli.quiet import last_lines, quiet_children\n"
        "with quiet_children(sys.argv[1]):\n"
        "    os.system('echo a child >&2')\n"
        "    logging.getLogger('x').warning('a logger')\n"
        "    warnings.warn('a warning')\n"
        "    sys.stderr.write('ours\\n')\n"
        "os.system('echo afterwards >&2')\n"
        "print(last_lines(sys.argv[1]))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path / "log")],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": "src"},
    )
    assert done.stderr == "ours\nafterwards\n"
    assert "a child" in done.stdout
    assert "a logger" in done.stdout
    assert "a warning" in done.stdout
