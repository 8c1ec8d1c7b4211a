"""A run that is killed and resumed ends with the bits of one that was not."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest
from flwr.app import Context, Message, RecordDict

from client_app.app import app as client_app
from dashboard.schemas import RunDetail
from dashboard.store import RunNotFound, RunStore
from fedcomp.errors import CheckpointError, ConfigError
from fedcomp.home import checkpoints_dir, database_url
from fedcomp.resume import MAY_CHANGE, check_same_run
from fedcomp.run_config import RunConfig
from server_app.app import main
from server_app.lock import RunIsHeld, hold_run
from tests.support.in_process_grid import InProcessGrid
from tests.support.runs import Value, final_model, identify, requests_of, run_in_process, same, settings


class Killed(BaseException):
    """Stands for a kill: nothing of the server app that ``except Exception`` guards sees it."""


class DyingGrid(InProcessGrid):
    """Dies in the middle of a round, when some replies were taken and some were not."""

    dies_in = 3

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        if requests_of(self)[-1:] and requests_of(self)[-1].round_index == self.dies_in:
            self.__dict__["pulls"] = self.__dict__.get("pulls", 0) + 1
            if self.__dict__["pulls"] == 2:
                raise Killed
        return super().pull_messages(message_ids)


def die(config: dict[str, Value], *, clients: int = 3, in_round: int = 3) -> str:
    """Run until the server dies, and return the run's id."""
    identify()
    grid = DyingGrid.of(client_app, clients, config)
    grid.__dict__["dies_in"] = in_round
    context = Context(run_id=77, node_id=1, node_config={}, state=RecordDict(), run_config=dict(config))
    with pytest.raises(Killed):
        main(grid, context)
    with RunStore(database_url()) as store:
        return store.find_run("latest").id


KINDS: dict[str, dict[str, Value]] = {
    "plain": {},
    "adam": {"strategy": "fedadam", "server-learning-rate": 0.05},
    "momentum": {"strategy": "fedavgm"},
    "yogi": {"strategy": "fedyogi", "server-learning-rate": 0.05},
    "cohorts": {"clients-per-round": 2, "sampler": "availability"},
    "feedback": {"compressor": "topk:fraction=0.05"},
    "downlink": {"downlink-compressor": "eden:bits=3,scale=mmse", "clients-per-round": 2},
    "clipped": {"clip-factor": 0.5},
    "seldom": {"checkpoint-every": 2, "compressor": "topk:fraction=0.05"},
    "buffers": {"task": "tests.support.tiny_task:BufferTask"},
    "half": {"task": "tests.support.tiny_task:HalfTask", "compressor": "sign"},
}


def records(run: RunDetail) -> list[object]:
    """Return what is kept of each client and round, apart from what was measured."""
    return [
        (item.round_index, one.client, one.outcome, one.weight, one.bits_asked, one.bits_source, one.payload_bytes)
        for item in run.rounds
        for one in item.client_results
    ]


@pytest.mark.parametrize("kind", KINDS)
def test_a_resumed_run_has_the_bits_of_one_that_was_not_interrupted(kind: str) -> None:
    config = settings(num_server_rounds=6) | KINDS[kind]
    whole, _ = run_in_process(config, clients=4)
    run_id = die(config, clients=4, in_round=4)
    resumed, grid = run_in_process(config | {"resume": run_id}, clients=4)
    assert resumed.id == run_id
    # The last round of a checkpoint, then the rounds after it again.
    first = min(item.round_index for item in requests_of(grid))
    assert first == (3 if kind == "seldom" else 4)
    assert same(final_model(whole), final_model(resumed))
    assert (resumed.status, resumed.config["resume"]) == ("completed", "")
    assert [item.round_index for item in resumed.rounds] == [1, 2, 3, 4, 5, 6]
    assert [item.loss for item in resumed.rounds] == [item.loss for item in whole.rounds]
    assert records(resumed) == records(whole)
    assert resumed.total_uplink_payload_bytes == whole.total_uplink_payload_bytes
    assert resumed.total_downlink_payload_bytes == whole.total_downlink_payload_bytes


def test_a_client_that_was_first_asked_in_the_lost_round_gets_a_whole_model() -> None:
    # It kept the model of a round that is played again, and so does not hold what it says it holds.
    config = settings(num_server_rounds=4) | KINDS["downlink"]
    whole, _ = run_in_process(config, clients=6)
    for lost in (1, 2, 3):
        run_id = die(config, clients=6, in_round=lost)
        resumed, _ = run_in_process(config | {"resume": run_id}, clients=6)
        assert all(client.reject_reason is None for item in resumed.rounds for client in item.client_results)
        assert same(final_model(whole), final_model(resumed))
        assert resumed.total_downlink_payload_bytes == whole.total_downlink_payload_bytes


def test_a_run_can_be_killed_again_and_again() -> None:
    config = settings(num_server_rounds=5, compressor="topk:fraction=0.05")
    whole, _ = run_in_process(config)
    run_id = die(config, in_round=2)
    for index in (2, 3, 5):
        die(config | {"resume": run_id}, in_round=index)
    resumed, _ = run_in_process(config | {"resume": run_id})
    assert same(final_model(whole), final_model(resumed))


def test_a_finished_run_can_go_on_for_longer() -> None:
    config = settings(num_server_rounds=3, strategy="fedavgm")
    longer, _ = run_in_process(config | {"num-server-rounds": 5})
    short, _ = run_in_process(config)
    resumed, _ = run_in_process(config | {"num-server-rounds": 5, "resume": short.id})
    assert (resumed.rounds_done, resumed.num_rounds) == (5, 5)
    assert same(final_model(longer), final_model(resumed))


def test_rounds_after_the_checkpoint_are_forgotten() -> None:
    config = settings(num_server_rounds=8, checkpoint_every=3)
    run_id = die(config, in_round=6)
    resumed, _ = run_in_process(config | {"resume": run_id, "num-server-rounds": 4})
    assert [item.round_index for item in resumed.rounds] == [1, 2, 3, 4]


def test_the_checkpoint_before_a_damaged_one_is_used() -> None:
    config = settings(num_server_rounds=4)
    whole, _ = run_in_process(config)
    run_id = die(config, in_round=3)
    newest = max(checkpoints_dir(run_id).glob("round-*"))
    (newest / "server.safetensors").write_bytes(b"")
    resumed, grid = run_in_process(config | {"resume": run_id})
    assert min(item.round_index for item in requests_of(grid)) == 2
    assert same(final_model(whole), final_model(resumed))


def test_other_settings_are_refused_with_a_diff() -> None:
    run, _ = run_in_process(settings(num_server_rounds=1))
    with pytest.raises(ConfigError) as caught:
        run_in_process(settings(num_server_rounds=2, resume=run.id, compressor="eden:bits=2", seed=9))
    assert str(caught.value) == (
        f"run {run.id} cannot be resumed with other settings: seed was 1, is 9; compressor was 'eden:bits=4', is "
        "'eden:bits=2'; give seed=1 compressor='eden:bits=4', or start a new run"
    )
    with RunStore(database_url()) as store:
        assert store.find_run(run.id).status == "completed"


def test_another_number_of_clients_is_refused() -> None:
    run, _ = run_in_process(settings(num_server_rounds=1), clients=3)
    with pytest.raises(ConfigError, match="client-0 divides the data into 4 parts, this run into 3"):
        run_in_process(settings(num_server_rounds=2, resume=run.id), clients=4)


def test_a_run_that_is_not_there_or_has_nothing_to_resume_from_is_told() -> None:
    with pytest.raises(RunNotFound):
        run_in_process(settings(resume="nothing"))
    run, _ = run_in_process(settings(num_server_rounds=1, checkpoint_every=0))
    with pytest.raises(ConfigError, match="has no checkpoint to resume from; start it anew"):
        run_in_process(settings(num_server_rounds=2, checkpoint_every=0, resume=run.id))
    gone, _ = run_in_process(settings(num_server_rounds=1))
    assert gone.checkpoint_path is not None
    Path(gone.checkpoint_path).joinpath("state.json").unlink()
    for path in checkpoints_dir(gone.id).glob("round-*/state.json"):
        path.unlink()
    with pytest.raises(CheckpointError, match="no checkpoint that can be read"):
        run_in_process(settings(num_server_rounds=2, resume=gone.id))


def test_what_may_change_leaves_the_model_what_it_would_have_been() -> None:
    config = settings(num_server_rounds=4, compressor="topk:fraction=0.05")
    whole, _ = run_in_process(config)
    changed: dict[str, Value] = {
        "name": "another",
        "device": "cpu",
        "log-level": "error",
        "min-clients": 1,
        "node-timeout": 2.0,
        "round-timeout": 9.0,
        "checkpoint-every": 2,
        "checkpoint-keep": 3,
        "max-rollbacks": 7,
        "max-uplink-mb": 1000.0,
        "patience": 50,
        "measure-nmse": True,
        "sealing": "on",
    }
    assert not [key for key, value in changed.items() if config.get(key, RunConfig().to_mapping()[key]) == value]
    # Those that only say when a run ends are seen where runs end.
    assert changed.keys() | {"resume", "num-server-rounds", "target-accuracy"} == MAY_CHANGE
    resumed, _ = run_in_process(config | changed | {"resume": die(config, in_round=3)})
    assert same(final_model(whole), final_model(resumed))


@pytest.mark.parametrize("key", sorted(set(RunConfig().to_mapping()) - MAY_CHANGE))
def test_every_other_setting_is_compared(key: str) -> None:
    other = "something else"
    with pytest.raises(ConfigError, match=f"{key} was 'something else'"):
        check_same_run("a-run", RunConfig().to_mapping() | {key: other}, RunConfig())


def test_a_setting_newer_than_the_run_had_its_default() -> None:
    before = dict(RunConfig().to_mapping())
    del before["weights"]
    check_same_run("a-run", before, RunConfig())
    with pytest.raises(ConfigError, match="weights was 'examples', is 'variance'"):
        check_same_run("a-run", before, RunConfig(weights="variance"))


def test_a_run_that_is_running_is_left_alone() -> None:
    run, _ = run_in_process(settings(num_server_rounds=1))
    with hold_run(checkpoints_dir(run.id)), pytest.raises(RunIsHeld, match="being run by another process"):
        run_in_process(settings(num_server_rounds=2, resume=run.id))
    with RunStore(database_url()) as store:
        assert store.find_run(run.id).status == "completed"


def test_a_run_whose_schedules_depend_on_its_length_keeps_it() -> None:
    before = RunConfig(learning_rate_schedule="cosine:end=0.1", num_server_rounds=5)
    longer = before.model_copy(update={"num_server_rounds": 6})
    with pytest.raises(ConfigError, match="num-server-rounds was 5, is 6"):
        check_same_run("a-run", before.to_mapping(), longer)
    check_same_run("a-run", before.to_mapping(), before)
    steps = before.model_copy(update={"learning_rate_schedule": "step:every=2"})
    check_same_run("a-run", steps.to_mapping(), steps.model_copy(update={"num_server_rounds": 6}))
