from __future__ import annotations

import pytest
from typer.testing import CliRunner

from dashboard.store import RoundResult, RunEnded, RunNotFound, RunStart, RunStore
from fedcomp.commands.main import app
from fedcomp.home import database_url


def new_run(store: RunStore, *, rounds_done: int, num_rounds: int = 12) -> str:
    run_id = store.create_run(
        RunStart(
            name="mine",
            task="emnist",
            data_label="data",
            compressor="identity",
            strategy="fedavg",
            seed=1,
            num_rounds=num_rounds,
            dim=8,
            config={},
            environment={},
        )
    )
    store.start_run(run_id)
    for index in range(rounds_done + 1):
        store.record_round(
            run_id,
            RoundResult(
                round_index=index,
                clients=1,
                uplink_payload_bytes=1,
                uplink_envelope_bytes=1,
                downlink_payload_bytes=1,
                downlink_envelope_bytes=1,
                bits_per_coordinate=32.0,
                seconds=0.1,
            ),
            [],
        )
    return run_id


def stop(*words: str) -> str:
    result = CliRunner().invoke(app, ["stop", *words], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


@pytest.mark.parametrize(("done", "last"), [(0, 1), (4, 5), (12, 12)])
def test_it_asks_and_says_what_will_happen(done: int, last: int) -> None:
    with RunStore(database_url()) as store:
        run_id = new_run(store, rounds_done=done)
        said = stop("mine")
        assert store.stop_requested(run_id)
    assert f"run {run_id} ends when round {last} of 12 is over" in said
    assert f"`fedcomp show {run_id}`" in said
    assert f"`fedcomp simulate --resume {run_id}`" in said
    assert "before" not in said


def test_asking_again_says_so() -> None:
    with RunStore(database_url()) as store:
        run_id = new_run(store, rounds_done=1)
        first = store.request_stop(run_id)
        said = stop(run_id)
        assert store.summary(run_id) == first
    assert first.stop_requested_at is not None
    assert f"was asked to stop before, at {first.stop_requested_at:%Y-%m-%d %H:%M:%S} UTC\n" in said


def test_a_run_that_has_ended_or_never_was_is_told() -> None:
    with RunStore(database_url()) as store:
        run_id = new_run(store, rounds_done=1)
        store.finish_run(run_id, "failed", "killed")
    with pytest.raises(RunEnded, match=f"run {run_id} is failed already"):
        stop("latest")
    with pytest.raises(RunNotFound, match="no run 'nobody'"):
        stop("nobody")


def test_a_run_must_be_named() -> None:
    result = CliRunner().invoke(app, ["stop"])
    assert result.exit_code == 2
    assert "RUN" in result.output
