from tidelog.client.patience import Patience


class Clock:
    def __init__(self) -> None:
        self.now = 100.0
        self.slept: list[float] = []

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds


def test_pauses_grow_up_to_a_limit_and_end_in_time() -> None:
    clock = Clock()
    patience = Patience(10, monotonic=clock.monotonic, sleep=clock.sleep)
    while patience.pause():
        pass
    assert clock.now <= 110
    assert clock.slept[0] < 0.02
    assert max(clock.slept) <= 0.6
    assert sum(clock.slept) > 9


def test_success_begins_again() -> None:
    clock = Clock()
    patience = Patience(1, monotonic=clock.monotonic, sleep=clock.sleep)
    while patience.pause():
        pass
    patience.renew()
    assert patience.pause()
    assert clock.slept[-1] < 0.02


def test_without_time_there_is_one_attempt() -> None:
    clock = Clock()
    assert not Patience(0, monotonic=clock.monotonic, sleep=clock.sleep).pause()
    assert clock.slept == []
