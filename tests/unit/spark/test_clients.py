"""Clients are kept from batch to batch, a few of them, each for the thread that made it."""

import threading

from tidelog.spark.clients import KEPT_MAX, Kept


class FakeClient:
    def __init__(self) -> None:
        self.is_closed = False

    def close(self) -> None:
        self.is_closed = True


class StubbornClient(FakeClient):
    def close(self) -> None:
        super().close()
        raise OSError("gone already")


def test_the_same_name_is_the_same_client() -> None:
    kept: Kept[FakeClient] = Kept()

    assert kept.get("a", FakeClient) is kept.get("a", FakeClient)
    assert kept.get("a", FakeClient) is not kept.get("b", FakeClient)


def test_the_one_not_used_for_longest_makes_room() -> None:
    kept: Kept[FakeClient] = Kept()
    clients = [kept.get(number, FakeClient) for number in range(KEPT_MAX)]
    kept.get(0, FakeClient)

    kept.get("one more", FakeClient)

    assert [client.is_closed for client in clients] == [False, True, *[False] * (KEPT_MAX - 2)]
    assert len(kept) == KEPT_MAX


def test_a_client_that_failed_is_not_used_again() -> None:
    kept: Kept[FakeClient] = Kept()
    failed = kept.get("a", StubbornClient)

    kept.drop(failed)

    assert failed.is_closed
    assert kept.get("a", FakeClient) is not failed


def test_each_thread_has_its_own() -> None:
    kept: Kept[FakeClient] = Kept()
    others: list[FakeClient] = []
    thread = threading.Thread(target=lambda: others.append(kept.get("a", FakeClient)))
    thread.start()
    thread.join()

    assert others[0] is not kept.get("a", FakeClient)


def test_all_are_closed_at_the_end() -> None:
    kept: Kept[FakeClient] = Kept()
    clients = [kept.get("a", FakeClient), kept.get("b", StubbornClient)]

    kept.close_all()

    assert all(client.is_closed for client in clients)
    assert len(kept) == 0
