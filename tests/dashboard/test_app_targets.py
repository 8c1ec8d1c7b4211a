from __future__ import annotations

import math

from dashboard.comparison import compare_runs
from dashboard.store import RoundResult, RunStart, RunStore
from dashboard.targets import reached
from dashboard.view_state import ViewState


def add_run(store: RunStore, start: RunStart, result: RoundResult, rounds: list[tuple[float | None, str]]) -> str:
    made = store.create_run(start)
    for index, (accuracy, status) in enumerate(rounds, 1):
        changed = {"round_index": index, "accuracy": accuracy, "status": status}
        sent = {"uplink_payload_bytes": 1000, "downlink_payload_bytes": 10}
        store.record_round(made, result.model_copy(update=changed | sent), [])
    return made


def test_the_first_round_that_counts_is_found(store: RunStore, start: RunStart, result: RoundResult) -> None:
    rounds: list[tuple[float | None, str]] = [(0.1, "ok"), (0.9, "rolled-back"), (math.nan, "ok"), (None, "ok")]
    made = add_run(store, start, result, [*rounds, (0.8, "ok"), (0.7, "ok"), (0.95, "ok")])
    never = add_run(store, start, result, rounds)
    with store.reading() as session:
        found = reached(session, [made, never], 0.8)
    assert list(found) == [made]
    assert (found[made].round_index, found[made].total_bytes) == (5, 5050)


def test_groups_are_means_over_their_runs_the_cheapest_first(
    store: RunStore, start: RunStart, result: RoundResult
) -> None:
    slow = start.model_copy(update={"compressor": "slow"})
    for first, second in (((0.5, "ok"), (0.9, "ok")), ((0.9, "ok"), (0.7, "ok"))):
        add_run(store, start, result, [first, second])
        add_run(store, slow, result, [(0.1, "ok"), (0.2, "ok"), second])
    # A group of which only one run gets there comes after those that do.
    add_run(store, start.model_copy(update={"compressor": "lucky"}), result, [(0.9, "ok")])
    add_run(store, start.model_copy(update={"compressor": "lucky"}), result, [(0.1, "ok")])
    with store.reading() as session:
        runs = store.list_runs()
        groups = compare_runs(session, ViewState(target=0.7), runs, drawn=False).groups
    assert [row.label for row in groups] == ["eden:bits=2", "slow", "lucky"]
    assert (groups[0].best, groups[0].reached, groups[0].to_target_bytes) == (0.9, 2, 1515.0)
    assert groups[0].final_std is not None
    assert math.isclose(groups[0].final_std, math.sqrt(0.02))
    assert (groups[2].reached, len(groups[2].run_ids)) == (1, 2)
