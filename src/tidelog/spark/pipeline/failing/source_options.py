"""The connector's options for what a pipeline reads, the ladder's own topics included. Pure."""

import re
from typing import Final

from tidelog.spark.pipeline.definition.connection import Connection
from tidelog.spark.pipeline.definition.endpoints import Topic
from tidelog.spark.pipeline.failing.routing import Ladder

READ_DEFAULTS: Final = {"startingOffsets": "earliest", "kafka.isolation.level": "read_committed"}


def source_options(source: Topic, connection: Connection, ladder: Ladder | None) -> dict[str, str]:
    """The options for `format("tidelog")`."""
    given = {name.lower() for name in source.options}
    starts = any(name.startswith("starting") and name != "startingoffsetsbytimestampstrategy" for name in given)
    options = {
        name: value
        for name, value in READ_DEFAULTS.items()
        if name.lower() not in given and not (starts and name == "startingOffsets")
    }
    options |= source.options
    options |= connection.options()
    read_back = () if ladder is None else ladder.retry_topics
    if source.pattern is not None:
        exactly = [f"^{re.escape(name)}$" for name in read_back]
        options["subscribePattern"] = "|".join([f"(?:{source.pattern})", *exactly]) if exactly else source.pattern
    else:
        options["subscribe"] = ",".join([*source.names, *read_back])
    if ladder is not None:
        options["includeHeaders"] = "true"
    return options
