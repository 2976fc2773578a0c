"""`tidelog config reference`."""

import sys
from typing import Final

from tidelog.config.reference import reference_markdown

EXAMPLE: Final = "tidelog config reference > configuration.md"


def reference() -> None:
    """Print the reference of every setting as a Markdown page."""
    sys.stdout.write(reference_markdown())
