"""What follows a round: the guard, rolling back, stopping, records."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
import torch
from flwr.app import Message

import fedcomp
from client_app.app import app as client_app
from client_app.state import ClientStore
from dashboard.store import RunStore
from fedcomp.flower.messages import TrainReply
from fedcomp.home import checkpoints_dir, database_url
from server_app.checkpoint import list_checkpoints
from server_app.coordinator import Diverged
from tests.support.in_process_grid import InProcessGrid
from tests.support.runs import Value, final_model, requests_of, run_in_process, settings


class ExplodingGrid(InProcessGrid):
    """All clients send enormous updates in some rounds: noise."""

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        found = list(super().pull_messages(message_ids))
        asked = {(item.client, item.round_index): item for item in requests_of(self)}
        for message in found:
            if not message.has_content() or "metrics" not in message.content:
                continue
            reply = TrainReply.from_record(message.content)
            if reply.round_index in self.__dict__["rounds"]:
                request = asked[reply.client, reply.round_index]
                seed = request.encode_seed
                dim = fedcomp.decode(reply.payload, seed=seed).numel()
                huge = 1e3 * torch.randn(dim, generator=torch.Generator().manual_seed(0))
                payload = fedcomp.compressor("identity").encode(huge, seed=seed)
                message.content.array_records["arrays"]["payload"].data = payload
        return found


def exploding(config: dict[str, Value], rounds: set[int]) -> InProcessGrid:
    grid = ExplodingGrid.of(client_app, 4, config)
    grid.__dict__["rounds"] = rounds
    return grid


def test_a_diverged_round_is_rolled_back_and_another_cohort_goes_on() -> None:
    config = settings(num_server_rounds=5, compressor="identity", clients_per_round=2)
    run, grid = run_in_process(config, grid=exploding(config, {3}))
    assert [item.status for item in run.rounds] == ["ok", "ok", "rolled-back", "ok", "ok"]
    third = run.rounds[2]
    assert str(third.note).endswith("rolled back to round 2")
    assert "the loss is" in str(third.note)
    assert {client.reject_reason for client in third.client_results} == {"the round was rolled back"}
    by_round = {item.round_index: item for item in requests_of(grid)}
    # Round 4 trains what round 3 trained: the model after round 2.
    models = [fedcomp.decode(by_round[i].parts[-1].payload, seed=by_round[i].parts[-1].seed) for i in (3, 4)]
    assert torch.equal(*models)
    assert by_round[4].void_rounds == (3, 3)
    assert (by_round[4].version, run.rounds[3].model_version) == (2, 2)
    assert run.last_accuracy is not None
    assert run.last_accuracy > 0.9
    assert run.status == "completed"


def test_what_clients_kept_in_a_void_round_is_void() -> None:
    config = settings(num_server_rounds=4, compressor="topk:fraction=0.1")
    run, _ = run_in_process(config, grid=exploding(config, {3}))
    assert run.rounds[2].status == "rolled-back"
    kept = sorted(path.name for path in ClientStore.open(run=run.id, client="client-0").folder.glob("round-*"))
    assert "round-00003" not in kept
    assert "round-00004" in kept


def test_a_run_that_diverges_too_often_fails_and_says_what_to_do() -> None:
    config = settings(num_server_rounds=9, compressor="identity", max_rollbacks=2)
    with pytest.raises(Diverged, match=r"round 5: .* max-rollbacks is 2: lower learning-rate or server-learning-rate"):
        run_in_process(config, grid=exploding(config, {2, 4, 5}))
    with RunStore(database_url()) as store:
        run = store.find_run("latest")
    assert run.status == "failed"
    assert [item.status for item in run.rounds] == ["ok", "rolled-back", "ok", "rolled-back", "rolled-back"]
    # What is kept is the last good model.
    assert run.rounds[2].accuracy is not None
    assert final_model(run)["0.weight"].abs().max() < 100


def test_the_guard_sees_the_mean_s_norm_too() -> None:
    config = settings(num_server_rounds=5, compressor="identity", guard_loss_factor=0.0)
    run, _ = run_in_process(config, grid=exploding(config, {4}))
    assert [item.status for item in run.rounds] == ["ok", "ok", "ok", "rolled-back", "ok"]
    assert "norm" in str(run.rounds[3].note)


def test_the_guard_can_be_switched_off() -> None:
    config = settings(num_server_rounds=2, compressor="identity", guard_loss_factor=0.0, guard_norm_factor=0.0)
    run, _ = run_in_process(config, grid=exploding(config, {2}))
    assert run.rounds[1].status == "ok"
    assert final_model(run)["0.weight"].abs().max() > 100


def test_without_checkpoints_there_is_no_guard(capsys: pytest.CaptureFixture[str]) -> None:
    config = settings(num_server_rounds=2, compressor="identity", checkpoint_every=0, log_level="info")
    run, _ = run_in_process(config, grid=exploding(config, {2}))
    assert run.rounds[1].status == "ok"
    assert run.checkpoint_path is None
    assert "checkpoint-every is 0: a model that diverges cannot be rolled back" in capsys.readouterr().out


def test_checkpoints_are_kept_as_told() -> None:
    run, _ = run_in_process(settings(num_server_rounds=7, checkpoint_every=3, checkpoint_keep=2))
    assert [path.name for path in list_checkpoints(checkpoints_dir(run.id))] == ["round-00006", "round-00007"]


def test_a_round_that_was_rolled_back_or_the_last_has_a_checkpoint_whatever_the_interval() -> None:
    config = settings(num_server_rounds=7, compressor="identity", checkpoint_every=3, checkpoint_keep=9)
    run, _ = run_in_process(config, grid=exploding(config, {5}))
    assert run.rounds[4].status == "rolled-back"
    assert "rolled back to round 3" in str(run.rounds[4].note)
    numbers = [int(path.name.removeprefix("round-")) for path in list_checkpoints(checkpoints_dir(run.id))]
    assert numbers == [0, 3, 5, 6, 7]
    config = settings(num_server_rounds=9, checkpoint_every=4, patience=2, learning_rate=1e-12)
    run, _ = run_in_process(config)
    assert "the loss has not fallen for" in str(run.stop_reason)
    assert run.rounds_done % 4 != 0
    assert str(run.checkpoint_path).endswith(f"round-{run.rounds_done:05d}")


@pytest.mark.parametrize(
    ("changes", "rounds", "reason"),
    [
        ({"target_accuracy": 0.9}, 1, "has reached the target of 0.9"),
        ({"max_uplink_mb": 0.002}, 3, "MB of uplink have reached the limit"),
        ({"patience": 2, "learning_rate": 1e-12}, 3, "the loss has not fallen for"),
    ],
)
def test_a_run_stops_when_it_is_told_to(changes: dict[str, Value], rounds: int, reason: str) -> None:
    run, _ = run_in_process(settings(num_server_rounds=9, **changes))
    assert run.status == "completed"
    assert reason in str(run.stop_reason)
    assert run.rounds_done <= rounds
    # The model it ended with is there.
    assert str(run.checkpoint_path).endswith(f"round-{run.rounds_done:05d}")


def test_a_run_ends_after_its_round_when_somebody_asks() -> None:
    config = settings(num_server_rounds=9)

    class Asking(InProcessGrid):
        def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
            identifiers = super().push_messages(messages)
            if requests_of(self)[-1:] and requests_of(self)[-1].round_index == 2:
                with RunStore(database_url()) as store:
                    store.request_stop(store.find_run("latest").id)
            return identifiers

    run, _ = run_in_process(config, grid=Asking.of(client_app, 3, config))
    assert (run.rounds_done, run.status, run.stop_reason) == (2, "completed", "stopped by request after round 2")
    # Resumed, it goes on.
    resumed, _ = run_in_process(config | {"resume": run.id})
    assert (resumed.rounds_done, resumed.stop_reason) == (9, None)


def test_the_servers_own_work_is_measured() -> None:
    run, _ = run_in_process(settings())
    for item in run.rounds:
        assert item.seconds > item.server_seconds + item.evaluate_seconds > 0
        assert item.server_seconds >= sum(client.decode_seconds for client in item.client_results)
        assert item.update_norm is not None
        assert item.model_version == item.round_index - 1


def test_a_run_that_leads_nowhere_is_told_once(capsys: pytest.CaptureFixture[str]) -> None:
    config = settings(learning_rate=1e-9, num_server_rounds=7)
    run, _ = run_in_process(config)
    notes = [item.note for item in run.rounds if item.note]
    assert len(notes) == 1
    assert notes[0].startswith("the model is no better than untrained (loss ")
    assert run.rounds[4].note == notes[0]
    assert run.rounds[4].status == "ok"
    assert "try another learning-rate, or clip-gradients = 1.0" in capsys.readouterr().out
    run, _ = run_in_process(settings(num_server_rounds=6))
    assert not any(item.note for item in run.rounds)
