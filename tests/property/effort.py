"""How many examples Hypothesis tries: a third of what a test asks for, and all with the profile `thorough`.

`make unit` is run after every change and finds what a few examples find; `make test-long` tries all.
"""

from hypothesis import settings

THOROUGH = "thorough"


def examples(count: int) -> int:
    """`max_examples` of a test that tries `count` examples when it is run thoroughly."""
    return count if settings.get_current_profile_name() == THOROUGH else max(count // 3, 2)
