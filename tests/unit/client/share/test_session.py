from tidelog.client.aio.share.session import ShareSession

A0, A1, B0 = (b"a" * 16, 0), (b"a" * 16, 1), (b"b" * 16, 0)


def test_a_session_begins_with_every_partition_and_goes_on_with_changes() -> None:
    session = ShareSession()
    assert session.fetch([A0, A1]) == (0, [A0, A1], [])
    session.answered()
    assert session.fetch([A0, A1]) == (1, [], [])
    session.answered()
    assert session.fetch([A1, B0]) == (2, [B0], [A0])


def test_a_request_that_only_acknowledges_is_numbered_and_changes_no_partitions() -> None:
    session = ShareSession()
    session.fetch([A0])
    session.answered()
    assert session.acknowledge() == 1
    session.answered()
    assert session.fetch([A0]) == (2, [], [])


def test_a_session_that_is_reset_begins_again() -> None:
    session = ShareSession()
    session.fetch([A0])
    session.answered()
    session.reset()
    assert not session.is_open
    assert session.fetch([A0]) == (0, [A0], [])


def test_epochs_go_round_without_the_one_that_begins_a_session() -> None:
    session = ShareSession()
    session.epoch = 2**31 - 1
    session.answered()
    assert session.epoch == 1
