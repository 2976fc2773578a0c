"""`tidelog help`: pages about what several commands share, and the help of a command."""

import sys
from collections.abc import Mapping
from typing import Annotated, Final

import typer

from tidelog.cli._verbs import verb
from tidelog.cli.errors import CommandError
from tidelog.cli.output import print_line
from tidelog.config.names import nearest_name

EXAMPLE: Final = "tidelog help templates"

_PAGES: Final[Mapping[str, tuple[str, str]]] = {
    "connecting": (
        "how a command finds its cluster",
        """\
A command connects to, in this order:

  1. --bootstrap-server HOST:PORT
  2. the variable TIDELOG_BOOTSTRAP_SERVERS
  3. bootstrap.servers in the file of --command-config
  4. bootstrap.servers of a profile: `tidelog help profiles`
  5. 127.0.0.1:9092

--command-config FILE has security settings and others under Kafka's names, as for Kafka's own tools:

  security.protocol=SASL_SSL
  sasl.mechanism=SCRAM-SHA-512
  sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required username="ops" password="…";
  ssl.truststore.location=/etc/ssl/broker-ca.pem
  ssl.truststore.type=PEM
""",
    ),
    "profiles": (
        "clusters by name",
        """\
  tidelog profile create staging --bootstrap-server broker-1:9092 --from-file staging.properties --use
  tidelog profile list
  tidelog profile use production
  tidelog topic list --profile staging

A profile is a properties file in ~/.config/tidelog/profiles ($XDG_CONFIG_HOME/tidelog/profiles), which Kafka's tools
read as well: kafka-topics.sh --command-config ~/.config/tidelog/profiles/staging.properties

A setting is taken from options first, then from variables, then from the profile. --profile, or the variable
TIDELOG_PROFILE, names the profile of a command; without them it is the one in use. The one in use stands back as a
whole when --bootstrap-server, TIDELOG_BOOTSTRAP_SERVERS or --command-config names the cluster: the credentials of one
cluster are not sent to another.
""",
    ),
    "templates": (
        "how `consume --template` prints records",
        """\
-f, --template prints each record in kcat's notation, with no line feed unless it says so:

  %s  value              %S  length of the value, -1 for null
  %k  key                %K  length of the key, -1 for null
  %h  headers, a=1,b=2   %R  length of the value, 4 bytes, big-endian
  %t  topic              %p  partition
  %o  offset             %T  timestamp in milliseconds
  %%  a percent sign     \\n \\r \\t \\\\ \\0 \\xNN  characters

  tidelog consume orders --tail 10 -f '%t [%p] at %o: %k = %s\\n'

Null keys and values are empty. With --schema-registry %s and %k are JSON, and lengths are those of the JSON.
""",
    ),
    "times": (
        "how times are written",
        """\
--from, --until and others take

  2h, 1d12h, 90s, 500ms         so long ago
  now
  2026-01-31T12:00:00Z          ISO 8601; without a zone it is UTC
  1769860800000                 milliseconds since 1970

--from begins at the first record of each partition at or after the time; --until ends before the first record at or
after it. Timestamps are those of the records: of their producer, or of the broker with
message.timestamp.type=LogAppendTime.
""",
    ),
    "records": (
        "how `produce` reads records",
        """\
--input lines    a value a line; with --key-separator a key before it
--input json     an object a line, as `consume --format json` prints them:
                   {"key": "alice", "value": {"pieces": 3}, "headers": {"source": "shop"}, "timestamp": 1769860800000}
                 key_base64 and value_base64 hold bytes; a value that is no text is stored as JSON; null is null
--input csv      a header line names the columns: key, value, timestamp, partition, header.NAME
                 without a column `value`, the value is a JSON object of the columns that have another name

  tidelog consume orders --from-beginning --until-end --format json | tidelog produce --input json orders-copy
  tidelog produce people --input csv --key-column id < people.csv

A record that cannot be read ends the command, once the records before it are stored; --bad-lines skip leaves it out.
""",
    ),
    "output": (
        "text, JSON and exit codes",
        """\
Results go to stdout, everything else to stderr. --format json prints a document for programs instead of a table;
records are a document a line. On terminals, what takes longer than a second shows its progress on stderr.

Exit codes: 0 done, 1 failed or refused by the cluster, 2 wrong words or options, 130 interrupted, 143 terminated.
""",
    ),
}


def _pages(incomplete: str) -> list[str]:
    from tidelog.cli.app import COMMANDS

    return [each for each in (*_PAGES, *COMMANDS) if each.startswith(incomplete)]


def help_(
    topic: Annotated[
        list[str] | None,
        typer.Argument(help="A page, or a command.", metavar="TOPIC…", autocompletion=_pages),
    ] = None,
) -> None:
    """Show a page about what commands share, or the help of a command."""
    if not topic:
        width = max(map(len, _PAGES))
        print_line("Pages, for `tidelog help PAGE`:\n")
        for name, (sentence, _) in _PAGES.items():
            print_line(f"  {name.ljust(width)}  {sentence}")
        print_line("\nCommands: `tidelog --help` lists them, `tidelog help COMMAND` explains one.")
        return
    from tidelog.cli.app import COMMANDS, main

    if len(topic) == 1 and topic[0] in _PAGES:
        sys.stdout.write(_PAGES[topic[0]][1])
        return
    if topic[0] in COMMANDS and topic[0] != "help":
        raise typer.Exit(main([*topic, "--help"]))
    nearest = nearest_name(topic[0], [*_PAGES, *COMMANDS])
    advice = f"; did you mean {nearest!r}?" if nearest else "; `tidelog help` lists the pages"
    raise CommandError(f"there is no page {topic[0]!r}{advice}")


def register(application: typer.Typer) -> None:
    """Add the command."""
    verb(application, "help", help_, EXAMPLE)
