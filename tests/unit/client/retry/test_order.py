"""Keys whose records wait."""

from tidelog.client.retry.order import Change, KeyAddress, KeyOrder

A = KeyAddress("orders", 0, b"a")


def test_later_records_wait_behind_the_first_and_go_in_order() -> None:
    order = KeyOrder()
    assert order.is_turn(A, None)
    first = order.wait(A, None, 1)
    assert not order.is_turn(A, None)
    second = order.wait(A, None)
    assert (first.sequence, second.sequence) == (0, 1)
    assert order.is_turn(A, 0)
    assert not order.is_turn(A, 1)
    assert order.wait(A, 0, 2).sequence == 0, "it failed again"
    assert order.head_attempts(A) == 2
    assert order.wait(A, 1).sequence == 1, "it came before its turn"
    order.release(A, 0)
    assert order.is_turn(A, 1)
    assert not order.is_turn(A, None)
    order.release(A, 1)
    assert order.is_turn(A, None)


def test_the_state_in_the_topic_is_that_of_what_was_committed() -> None:
    order = KeyOrder()
    first = order.wait(A, None, 1)
    committed = order.states([first])
    order.committed([first])
    second = order.wait(A, None)
    release = order.release(A, 0)
    assert release is not None
    # The second record is not in its retry topic yet: after a crash it is read again, and nothing must block it.
    assert order.states([release]) == {A: None}
    order.committed([release])
    assert order.states([second]) != {A: None}
    order.committed([second])
    restarted = KeyOrder()
    value = committed[A]
    assert value is not None
    restarted.load("orders", 0, {b"a": value, b"b": b"nonsense"})
    assert restarted.is_turn(A, 0)
    assert not restarted.is_turn(A, None)
    assert not order.is_turn(A, None)
    assert order.is_turn(A, 1)


def test_numbers_go_on_until_everything_is_committed() -> None:
    order = KeyOrder()
    first = order.wait(A, None, 1)
    order.committed([first])
    release = order.release(A, 0)
    assert release is not None
    third = order.wait(A, None, 1)
    assert third == Change(A, 1, is_release=False)
    order.committed([third])
    order.committed([release])
    assert order.is_turn(A, 1)
    assert not order.is_turn(A, None)
    last = order.release(A, 1)
    assert last is not None
    assert order.states([last]) == {A: None}
    order.committed([last])
    assert order.wait(A, None).sequence == 0, "nothing is known of the key any more"


def test_unknown_numbers_do_not_block_a_key() -> None:
    order = KeyOrder()
    assert order.is_turn(A, 17)
    assert order.release(A, 17) is None
    order.wait(A, None, 1)
    order.drop("orders", 0)
    assert order.is_turn(A, None)
