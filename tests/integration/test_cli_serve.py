"""`tidelog serve` as a process: its ready line, its signals, its exit codes, its refusals."""

import os
import signal
import socket
import subprocess
import sys

import pytest

from tests.integration.cli_support import SOURCE, run
from tests.unit.present import present
from tidelog.client import Admin

SERVE = [sys.executable, "-m", "tidelog", "serve"]


def serve(*words):
    return subprocess.Popen(
        [*SERVE, *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": SOURCE},
    )


def settings(tmp_path, listeners="PLAINTEXT://127.0.0.1:0"):
    return ["--set", f"listeners={listeners}", "--set", f"log.dirs={tmp_path / 'data'}"]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=["SIGTERM", "SIGINT"])
def test_it_announces_its_address_and_stops_in_order(tmp_path, number):
    with serve(*settings(tmp_path)) as process:
        word, ready, address = present(process.stdout).readline().decode().split()
        assert (word, ready) == ("tidelog", "ready")
        with Admin(bootstrap_servers=address) as admin:
            assert admin.list_topics() == []
        process.send_signal(number)
        out, err = process.communicate(timeout=20)
    assert (process.returncode, out) == (0, b"")
    assert b"Traceback" not in err
    assert (tmp_path / "data" / ".kafka_cleanshutdown").exists()


SIGNALLED = """
import os, sys

class Trap:
    def find_spec(self, name, path=None, target=None):
        if name == sys.argv[1]:
            sys.meta_path.remove(self)
            os.kill(os.getpid(), int(sys.argv[2]))

sys.meta_path.insert(0, Trap())
from tidelog.__main__ import main
sys.exit(main(sys.argv[3:]))
"""

# What a start imports, in its order; from `sqlite3` on the broker handles signals itself and stops as always.
MOMENTS = ["tidelog.cli.serve", "tidelog.config", "logging", "asyncio", "tidelog.broker.server", "uvloop", "sqlite3"]


@pytest.mark.parametrize(
    ("module", "number"), [*((each, signal.SIGINT) for each in MOMENTS), ("asyncio", signal.SIGTERM)]
)
def test_a_signal_at_any_moment_of_the_start_ends_it_without_a_traceback(tmp_path, module, number):
    """The signal comes when the start imports `module`. Fails on 4724f6e with a KeyboardInterrupt's traceback."""
    ended = subprocess.run(
        [sys.executable, "-c", SIGNALLED, module, str(int(number)), "serve", *settings(tmp_path)],
        capture_output=True,
        env={**os.environ, "PYTHONPATH": SOURCE},
        timeout=60,
        check=False,
    )
    assert (ended.returncode, b"Traceback" in ended.stderr) == (0, False), ended.stderr.decode()


def test_a_file_of_settings_is_read(tmp_path):
    file = tmp_path / "server.properties"
    file.write_text(
        f"listeners=PLAINTEXT://127.0.0.1:0\nlog.dirs={tmp_path / 'data'}\nbroker.id=42\n", encoding="utf-8"
    )
    with serve("--config", str(file)) as process:
        assert present(process.stdout).readline().startswith(b"tidelog ready 127.0.0.1:")
        process.terminate()
        process.communicate(timeout=20)
    assert process.returncode == 0
    assert "broker.id=42" in (tmp_path / "data" / "meta.properties").read_text(encoding="utf-8")


def test_a_setting_without_effect_is_named_once(tmp_path):
    """Fails on 4724f6e, which named settings twice, in two wordings, and most of them not at all."""
    idle = ["num.io.threads=16", "replica.socket.receive.buffer.bytes=5000", "num.network.threads=3"]
    with serve(*settings(tmp_path), *(word for each in idle for word in ("--set", each))) as process:
        present(process.stdout).readline()
        process.terminate()
        _, err = process.communicate(timeout=20)
    (warning,) = [line for line in err.decode().splitlines() if "WARNING" in line]
    assert "no effect in Tidelog: num.io.threads, replica.socket.receive.buffer.bytes (" in warning


@pytest.mark.parametrize(
    ("setting", "complaints"),
    [
        ("num.partitions=many", ["num.partitions", "many"]),
        ("num.partitons=3", ["num.partitons"]),
        ("listeners=nonsense", ["listeners", "nonsense"]),
        ("listeners=SASL_SSL://127.0.0.1:0", ["security.inter.broker.protocol", "SASL_SSL"]),
        ("authorizer.class.name=AclAuthorizer", ["authorizer.class.name", "AclAuthorizer", "must be one of"]),
        ("zookeeper.ssl.crl.enable=true", ["zookeeper.ssl.crl.enable"]),
    ],
)
def test_a_wrong_setting_is_exit_code_2_and_names_setting_and_value(setting, complaints, tmp_path):
    refused = run("serve", *settings(tmp_path), "--set", setting)
    assert refused.code == 2
    assert refused.out == ""
    assert all(complaint in refused.err for complaint in complaints)
    assert "Traceback" not in refused.err


def test_a_port_in_use_is_exit_code_1_and_names_the_address(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        refused = run("serve", *settings(tmp_path, f"PLAINTEXT://{address}"))
    assert refused.code == 1
    assert refused.out == ""
    assert address in refused.err
    assert "Traceback" not in refused.err


def test_a_directory_that_another_broker_holds_is_refused(tmp_path):
    with serve(*settings(tmp_path)) as process:
        present(process.stdout).readline()
        refused = run("serve", *settings(tmp_path))
        process.terminate()
        process.communicate(timeout=20)
    assert refused.code == 1
    assert str(tmp_path / "data") in refused.err
    assert "Traceback" not in refused.err


def test_a_broker_that_serves_has_imported_neither_framework_nor_numeric_stack(tmp_path):
    with subprocess.Popen(
        [sys.executable, "-X", "importtime", "-m", "tidelog", "serve", *settings(tmp_path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": SOURCE},
    ) as process:
        present(process.stdout).readline()
        process.terminate()
        _, err = process.communicate(timeout=20)
    loaded = {line.rpartition("|")[2].strip().partition(".")[0] for line in err.decode().splitlines()}
    assert "tidelog" in loaded
    assert not loaded & {"typer", "rich", "click", "argparse", "pydantic", "numpy", "pyarrow", "numba"}
