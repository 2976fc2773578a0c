"""The demonstration of a killed leader, in small."""

from tests.integration.cli_support import run


def test_a_killed_leader_loses_nothing_and_the_demonstration_proves_it() -> None:
    done = run("demo", "failover", "--seconds", "2", "--rate", "200", "--format", "json", timeout_s=120)
    assert done.code == 0, done.err
    shown = done.document
    assert shown["acknowledged"] == shown["read"] == shown["sent"] == 400
    assert (shown["lost"], shown["duplicates"]) == (0, 0)
    assert shown["fault"]["led"] >= 1
    assert sum(bucket["records"] for bucket in shown["timeline"]) == 400
    assert "killed after" in done.err
