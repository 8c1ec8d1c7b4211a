from __future__ import annotations

from dashboard.schemas_compare import ClientSummary
from dashboard.slow_clients import slow_clients


def client(name: str, mean: float | None, longest: float | None, applied: int = 10) -> ClientSummary:
    return ClientSummary(
        client=name, runs=1, rounds=applied, applied=applied, rejected=0, late=0, payload_bytes=0,
        mean_bits_per_coordinate=None, mean_bits_asked=None, mean_train_seconds=mean, max_train_seconds=longest,
        mean_encode_seconds=None, mean_uplink_mbps=None, devices=(), reject_reasons={},
    )  # fmt: skip


def test_who_takes_twice_the_median_is_slow() -> None:
    others = [client(str(each), 1.0, 1.0) for each in range(5)]
    assert slow_clients([*others, client("late", 3.0, 3.0)]) == {"late"}
    assert slow_clients([*others, client("edge", 2.0, 2.0)]) == frozenset()


def test_one_long_round_makes_nobody_slow() -> None:
    others = [client(str(each), 1.0, 1.0) for each in range(5)]
    assert slow_clients([*others, client("warming up", 3.0, 21.0)]) == frozenset()
    assert slow_clients([*others, client("once", 9.0, 9.0, applied=1)]) == {"once"}


def test_a_few_clients_or_unknown_times_say_nothing() -> None:
    assert slow_clients([client("a", 1.0, 1.0), client("b", 9.0, 9.0)]) == frozenset()
    assert slow_clients([client("a", None, None) for _ in range(5)]) == frozenset()
