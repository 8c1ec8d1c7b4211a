"""The tables of `fedcomp show` and `fedcomp runs` and the progress lines, on records made by hand."""

from __future__ import annotations

import io
import math
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console
from rich.table import Table
from typer.testing import CliRunner

from dashboard.schemas import ClientResult, Outcome, RoundResult, RunDetail, RunStart
from dashboard.store import RunStore
from fedcomp.commands.client_table import client_notes, client_totals, clients_table
from fedcomp.commands.main import app
from fedcomp.commands.progress import RunProgress
from fedcomp.commands.tables import round_status, rounds_table, runs_table
from fedcomp.home import database_url

START = RunStart(
    name="demo",
    task="emnist",
    data_label="simulated writers",
    compressor="eden:bits=1,allocation=adaptive",
    strategy="fedavg",
    seed=1,
    num_rounds=12,
    dim=1_206_590,
    config={},
    environment={},
    flower_run_id="77",
)
ROUND = RoundResult(
    round_index=1,
    accuracy=0.5,
    loss=1.5,
    asked=10,
    clients=10,
    uplink_payload_bytes=15_083_204,
    uplink_envelope_bytes=11_855,
    downlink_payload_bytes=48_263_600,
    downlink_envelope_bytes=12_345,
    bits_per_coordinate=1.0,
    seconds=21.6,
)
CLIENT = ClientResult(
    client="a",
    client_id="1",
    node_id="2",
    num_examples=3,
    payload_bytes=1_500_000,
    envelope_bytes=10_000,
    downlink_payload_bytes=4_800_000,
    downlink_envelope_bytes=20_000,
    bits_asked=1.5,
    bits_per_coordinate=1.25,
    train_seconds=10.0,
    encode_seconds=0.5,
    decode_seconds=0.1,
    device="cpu",
    vnmse=0.125,
)


def changed(item: RoundResult, **changes: Any) -> RoundResult:
    return item.model_copy(update=changes)


def client(**changes: Any) -> ClientResult:
    return CLIENT.model_copy(update=changes)


REASON = "NonFinite: a NaN"
ROUNDS: list[tuple[RoundResult, list[ClientResult]]] = [
    (ROUND, [client(), client(client="b", device="cuda:0", bits_asked=None)]),
    (
        changed(ROUND, round_index=2, status="partial", clients=7, rejected=2, late=1),
        [
            client(bits_asked=2.0, bits_per_coordinate=1.75, vnmse=0.375),
            client(client="b", device="", outcome="rejected", reject_reason=REASON, payload_bytes=0, vnmse=math.nan),
        ],
    ),
    (
        changed(ROUND, round_index=3, status="skipped", clients=0, rejected=10, note="the model is kept"),
        [
            client(outcome="late", round_asked=2, reject_reason="came too late"),
            client(client="b", device="", outlier="norm 31 times the median"),
        ],
    ),
    (
        changed(ROUND, round_index=4, status="rolled-back", accuracy=math.nan, note="loss went from 1.5 to inf"),
        [client(client="b", device="", outlier="cosine -0.9"), client(client="c", outcome="over-selected")],
    ),
]


def fill(store: RunStore) -> str:
    run_id = store.create_run(START)
    store.start_run(run_id)
    for item, clients in ROUNDS:
        store.record_round(run_id, item, clients)
    return run_id


@pytest.fixture
def run() -> RunDetail:
    with RunStore(database_url()) as store:
        return store.find_run(fill(store))


def printed(table: Table, width: int) -> str:
    output = io.StringIO()
    Console(file=output, width=width).print(table)
    return output.getvalue()


def cells(table: Table) -> list[list[str]]:
    lines = printed(table, 250).splitlines()
    return [[cell.strip() for cell in line.strip("│").split("│")] for line in lines if line[:1] == "│"]


def show(*words: str) -> list[str]:
    result = CliRunner().invoke(app, ["show", *words], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output.splitlines()


def test_rounds_have_bytes_both_ways_and_a_status(run: RunDetail) -> None:
    first, partial, skipped, rolled_back = cells(rounds_table(run))
    assert first == ["1", "0.5000", "1.5000", "10/10", "15,083,204", "48,263,600", "1.000", "21.6", ""]
    assert (partial[3], partial[-1]) == ("7/10", "partial: 2 rejected, 1 late")
    assert (skipped[3], skipped[-1]) == ("0/10", "skipped: 10 rejected")
    assert (rolled_back[1], rolled_back[-1]) == ("nan", "rolled-back")


def test_a_round_that_does_not_say_how_many_it_asked_shows_those_it_had(run: RunDetail) -> None:
    (item, *_) = run.rounds
    old = run.model_copy(update={"rounds": (item.model_copy(update={"asked": 0, "late": 3}),)})
    (row,) = cells(rounds_table(old))
    assert (row[3], row[-1]) == ("10", "3 late")


@pytest.mark.parametrize("width", [100, 200])
def test_tables_fit_into_a_terminal_with_their_numbers_and_ids_whole(run: RunDetail, width: int) -> None:
    rounds = printed(rounds_table(run), width)
    for word in ("15,083,204", "48,263,600", "rolled-back", "1.000", "21.6"):
        assert word in rounds
    clients = printed(clients_table(client_totals(run)), width)
    for word in ("cuda:0", "1.667", "0.208", "19.28"):
        assert word in clients
    runs = printed(runs_table([run]), width)
    for word in (run.id, "4/12", "60.33", "193.05", "running"):
        assert word in runs
    for text in (rounds, clients, runs):
        assert "…" not in text
        assert max(len(line) for line in text.splitlines()) <= width


def test_clients_are_added_up_over_the_run(run: RunDetail) -> None:
    a, b, c = cells(clients_table(client_totals(run)))
    # asked in rounds 1, 2 and (late, of round 2) 3; the means are over what is known
    assert a[:7] == ["a", "cpu", "2", "2", "0", "1", "0"]
    assert a[7:] == ["1.667", "1.417", "0.208", "4.53", "14.46", "30.0", "1.5"]
    # its device is that of the last reply that named one; NaN and the rejected round's missing payload are no rates
    assert b[:7] == ["b", "cuda:0", "4", "3", "1", "0", "0"]
    assert b[7:] == ["1.500", "1.250", "0.125", "4.54", "19.28", "40.0", "2.0"]
    assert c[:7] == ["c", "cpu", "1", "0", "0", "0", "1"]


def test_what_went_wrong_with_a_client_is_told_in_words(run: RunDetail) -> None:
    assert client_notes(client_totals(run)) == [
        "b: last rejected in round 2: NonFinite: a NaN",
        "b: stands out in rounds 3, 4: cosine -0.9",
    ]


def test_a_client_of_which_nothing_is_known_shows_dashes_and_its_last_reason() -> None:
    silent = client(payload_bytes=0, bits_asked=None, bits_per_coordinate=0.0, vnmse=None, outcome="rejected")
    with RunStore(database_url()) as store:
        run_id = store.create_run(START)
        for index, reason in ((1, "no"), (2, "still no")):
            clients = [silent.model_copy(update={"reject_reason": reason})]
            store.record_round(run_id, changed(ROUND, round_index=index), clients)
        totals = client_totals(store.find_run(run_id))
    ((*_, asked, sent, vnmse, _up, _down, _train, _encode),) = cells(clients_table(totals))
    assert (asked, sent, vnmse) == ("-", "-", "-")
    assert client_notes(totals) == ["a: last rejected in round 2: still no"]


def test_every_update_and_byte_is_counted_once() -> None:
    update = st.tuples(st.sampled_from("abc"), st.sampled_from(get_args(Outcome)), st.integers(0, 9))
    rounds = st.lists(st.lists(update, unique_by=lambda one: one[0]), max_size=4)

    with RunStore("sqlite://") as store:

        @given(rounds)
        def check(told: list[list[tuple[str, Outcome, int]]]) -> None:
            run_id = store.create_run(START)
            flat = []
            for index, one in enumerate(told):
                clients = [client(client=name, outcome=what, payload_bytes=size) for name, what, size in one]
                store.record_round(run_id, changed(ROUND, round_index=index), clients)
                flat += clients
            totals = client_totals(store.find_run(run_id))
            assert [item.client for item in totals] == sorted({item.client for item in flat})
            assert sum(item.applied + item.rejected + item.late + item.over_selected for item in totals) == len(flat)
            assert sum(item.asked for item in totals) == len(flat)
            assert sum(item.bytes_up for item in totals) == sum(one.payload_bytes + one.envelope_bytes for one in flat)

        check()


def test_show_tells_notes_traffic_and_clients(run: RunDetail) -> None:
    lines = show(run.id)
    assert "round 3 (skipped): the model is kept" in lines
    assert "round 4 (rolled-back): loss went from 1.5 to inf" in lines
    assert (
        "bytes: 60,332,816 up in payloads and 47,420 in envelopes, 193,054,400 down in payloads and 49,380 in envelopes"
        in lines
    )
    assert "status: running" in lines
    assert not any("NonFinite" in line for line in lines)
    with_clients = show(run.id, "--clients")
    assert "b: last rejected in round 2: NonFinite: a NaN" in with_clients
    assert any("cuda:0" in line for line in with_clients)
    assert [line for line in with_clients if line in lines] == lines


def test_show_tells_why_a_run_stopped(run: RunDetail) -> None:
    with RunStore(database_url()) as store:
        asked = store.request_stop(run.id)
        assert asked.stop_requested_at is not None
        when = f"{asked.stop_requested_at:%Y-%m-%d %H:%M:%S}"
        assert f"status: running (asked to stop at {when} UTC, ends after the round in progress)" in show()
        store.set_stop_reason(run.id, "accuracy 0.9 reached")
        store.finish_run(run.id, "completed")
        assert "status: completed (stopped: accuracy 0.9 reached)" in show()
        store.start_run(run.id)
        store.request_stop(run.id)
        store.finish_run(run.id, "failed", "killed")
        assert "status: failed (killed)" in show()


def test_round_status_is_empty_when_all_is_in_order(run: RunDetail) -> None:
    assert [round_status(item) for item in run.rounds] == [
        "",
        "partial: 2 rejected, 1 late",
        "skipped: 10 rejected",
        "rolled-back",
    ]


def test_progress_tells_what_was_not_in_order() -> None:
    output = io.StringIO()
    console = Console(file=output, force_terminal=False, width=150)
    with RunStore(database_url()) as store, RunProgress(store, console) as progress:
        fill(store)
        progress.poll("77")
    lines = [line for line in output.getvalue().splitlines() if line.startswith("round")]
    assert lines == [
        "round 1: accuracy 0.500, uplink 15.08 MB so far, 1.000 bits/coordinate, 21.6 s",
        "round 2: accuracy 0.500, uplink 30.17 MB so far, 1.000 bits/coordinate, 21.6 s · partial: 2 rejected, 1 late",
        "round 3: accuracy 0.500, uplink 45.25 MB so far, 1.000 bits/coordinate, 21.6 s · skipped: 10 rejected"
        " · the model is kept",
        "round 4: accuracy nan, uplink 60.33 MB so far, 1.000 bits/coordinate, 21.6 s · rolled-back"
        " · loss went from 1.5 to inf",
    ]


def test_client_10_comes_after_client_9() -> None:
    with RunStore(database_url()) as store:
        run_id = store.create_run(START)
        names = ["client-10", "bank", "client-9", "client-9b", "client-100"]
        store.record_round(run_id, ROUND, [client(client=name) for name in names])
        totals = client_totals(store.find_run(run_id))
    assert [item.client for item in totals] == ["bank", "client-9", "client-9b", "client-10", "client-100"]
