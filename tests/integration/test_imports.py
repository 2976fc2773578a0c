"""What importing a part of Tidelog loads, seen in a process of its own: start-up pays for what is used and no more."""

import ast
import subprocess
import sys

from tidelog.client import arrow


def test_serve_imports_no_command_line_framework():
    """Start-up is measured in milliseconds; typer and rich alone cost more than the broker."""
    code = (
        "import sys; from tidelog.__main__ import main; main(['serve', '--set', 'num.partitions=x']);"
        "print(*sys.modules)"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = {name.partition(".")[0] for name in ran.stdout.split()}
    assert "tidelog" in loaded
    assert not loaded & {"typer", "rich", "click", "argparse", "pydantic", "inspect", "json", "importlib_metadata"}


def test_the_first_start_of_a_broker_loads_no_more_than_it_needs(tmp_path):
    """`shutil` brings every compression format along, and there is nothing to adopt in an empty directory."""
    code = (
        "import asyncio, sys\n"
        "from tidelog.broker.server import Server\n"
        "from tidelog.config import load_broker_config\n"
        "async def serve():\n"
        f"    settings = {{'listeners': 'PLAINTEXT://127.0.0.1:0', 'log.dirs': {str(tmp_path)!r}}}\n"
        "    server = Server(load_broker_config(settings))\n"
        "    await server.start()\n"
        "    print(*sys.modules)\n"
        "    await server.stop()\n"
        "asyncio.run(serve())\n"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(ran.stdout.split())
    assert "tidelog.storage.log" in loaded
    assert not loaded & {
        "tidelog.broker.topology.adoption",
        "tidelog.broker.topology.member",
        "shutil",
        "tempfile",
        "lzma",
        "uuid",
        "hashlib",
        "decimal",
    }


def test_the_clients_import_nothing_numeric_by_themselves():
    code = (
        "import sys, tidelog.client.producer, tidelog.client.consumer, tidelog.cli.export, tidelog.cli.import_\n"
        "print(sorted({'numpy', 'numba', 'pyarrow'} & set(sys.modules)))"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env={"PYTHONPATH": _source()})
    assert ran.stdout == "[]\n", ran.stderr


def _source():
    return arrow.__file__.partition("/tidelog/client/")[0]


def test_importing_the_store_does_not_import_sqlite() -> None:
    program = "import sys, tidelog.metadata.embedded; print('sqlite3' in sys.modules)"
    output = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert output.strip() == "False"


def test_importing_a_definition_imports_no_spark() -> None:
    code = (
        "import sys; from tidelog.spark.pipeline import Pipeline, RetryLadder, parse_json, row_step, topic; "
        "import tidelog.cli.pipeline; sys.exit('pyspark' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_importing_the_registered_module_is_light_and_safe():
    """Spark imports every `pyspark_*` module for every look-up; one that raises makes it skip all of them."""
    code = (
        "import pyspark_tidelog, sys; assert pyspark_tidelog.DefaultSource.name() == 'tidelog'; "
        "print(sorted({'numba', 'pyarrow', 'numpy', 'pandas', 'tidelog.client.cluster', 'asyncio'} & set(sys.modules)))"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert run.stdout.strip() == "[]"


def test_the_pytest_plugin_imports_nothing_of_tidelog_but_its_package():
    """It is loaded in every pytest run of everybody who has Tidelog installed."""
    code = "import pytest, sys; before = set(sys.modules); import tidelog.testing.pytest_plugin;"
    code += "print(*(set(sys.modules) - before))"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert set(ran.stdout.split()) <= {"tidelog", "tidelog.testing", "tidelog.testing.pytest_plugin"}


def test_naming_a_message_loads_its_module_and_no_other() -> None:
    """Start-up pays for the messages it uses. The compiler, too, waits for the first object."""
    program = (
        "import sys\n"
        "from tidelog.wire.messages import MetadataRequest\n"
        "print(sorted(name.rpartition('.')[2] for name in sys.modules if name.startswith('tidelog.wire.')))\n"
        "MetadataRequest().encode(12)\n"
        "print('tidelog.wire._compiler' in sys.modules)\n"
    )
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    loaded, compiled = result.stdout.splitlines()
    assert ast.literal_eval(loaded) == ["api_keys", "errors", "fields", "messages", "metadata", "primitives", "schema"]
    assert compiled == "True"
