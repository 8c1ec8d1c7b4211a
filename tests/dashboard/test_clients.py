from __future__ import annotations

import math

import pytest

from dashboard.clients import client_summary
from dashboard.schemas_compare import ClientSummary
from dashboard.store import ClientResult, RoundResult, RunStart, RunStore


def summarised(store: RunStore, ids: list[str]) -> dict[str, ClientSummary]:
    with store.reading() as session:
        found = client_summary(session, ids)
    assert [item.client for item in found] == sorted(item.client for item in found)
    return {item.client: item for item in found}


def test_who_is_slow_rejected_and_sends_how_much(
    store: RunStore, start: RunStart, result: RoundResult, client: ClientResult
) -> None:
    def did(name: str, **values: object) -> ClientResult:
        return ClientResult(**(client.model_dump(exclude={"outcome"}) | {"client": name, **values}))

    first, second = store.create_run(start), store.create_run(start)
    store.record_round(
        first,
        result,
        [
            did("slow", train_seconds=10.0, payload_bytes=100, bits_per_coordinate=1.0, bits_asked=1.0),
            did("bad", reject_reason="NonFinite", train_seconds=99.0, bits_per_coordinate=math.nan),
        ],
    )
    store.record_round(
        first,
        result.model_copy(update={"round_index": 2}),
        [
            did("slow", train_seconds=20.0, payload_bytes=300, bits_per_coordinate=3.0, bits_asked=4.0, device="cuda"),
            did("bad", reject_reason="NonFinite"),
            did("late", outcome="late"),
        ],
    )
    store.record_round(
        second, result, [did("slow", payload_bytes=1, train_seconds=30.0), did("bad", reject_reason="Truncated")]
    )
    found = summarised(store, [first])
    slow = found["slow"]
    assert (slow.runs, slow.rounds, slow.applied, slow.rejected, slow.late) == (1, 2, 2, 0, 0)
    assert (slow.mean_train_seconds, slow.max_train_seconds, slow.payload_bytes) == (15.0, 20.0, 400)
    assert (slow.mean_bits_per_coordinate, slow.mean_bits_asked) == (2.0, 2.5)
    assert slow.devices == ("cpu", "cuda")
    assert found["bad"].reject_reasons == {"NonFinite": 2}
    assert (found["bad"].rejected, found["bad"].mean_train_seconds) == (2, None)
    assert (found["late"].applied, found["late"].late) == (0, 1)
    both = summarised(store, [first, second])
    assert (both["slow"].runs, both["slow"].rounds, both["slow"].mean_train_seconds) == (2, 3, 20.0)
    assert both["bad"].reject_reasons == {"NonFinite": 2, "Truncated": 1}


def test_nan_does_not_spoil_a_mean_and_infinity_is_shown(
    store: RunStore, start: RunStart, result: RoundResult, client: ClientResult
) -> None:
    run_id = store.create_run(start)
    for index, bits in enumerate((math.nan, 2.0)):
        values = {"bits_per_coordinate": bits, "train_seconds": math.inf}
        store.record_round(run_id, result.model_copy(update={"round_index": index}), [client.model_copy(update=values)])
    (found,) = summarised(store, [run_id]).values()
    assert found.mean_bits_per_coordinate == 2.0
    assert found.mean_train_seconds == math.inf


@pytest.mark.parametrize("ids", [[], ["nobody"]])
def test_no_runs_no_clients(store: RunStore, ids: list[str]) -> None:
    assert summarised(store, ids) == {}
