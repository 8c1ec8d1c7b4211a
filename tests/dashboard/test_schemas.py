from __future__ import annotations

import json
import math
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from pydantic import ValidationError

from dashboard.schemas import ClientResult, RoundResult, RunDetail, RunStart
from dashboard.store import RunStore


def test_nan_and_infinities_stay_valid_json_and_come_back(result: RoundResult) -> None:
    odd = result.model_copy(update={"accuracy": math.nan, "loss": math.inf, "train_loss": -math.inf})
    written = odd.model_dump_json()
    plain = json.loads(written, parse_constant=pytest.fail)
    assert (plain["accuracy"], plain["loss"], plain["train_loss"]) == ("NaN", "Infinity", "-Infinity")
    again = RoundResult.model_validate_json(written)
    assert again.accuracy is not None
    assert math.isnan(again.accuracy)
    assert (again.loss, again.train_loss) == (math.inf, -math.inf)


def test_nan_in_the_config_stays_valid_json(start: RunStart) -> None:
    odd = start.model_copy(update={"config": {"rate": math.nan, "deep": [{"x": math.inf}]}})
    plain = json.loads(odd.model_dump_json(), parse_constant=pytest.fail)
    assert plain["config"] == {"rate": "NaN", "deep": [{"x": "Infinity"}]}


def test_datetimes_are_written_in_utc_with_z(start: RunStart) -> None:
    tokyo = datetime(2026, 11, 30, 2, 53, 12, tzinfo=timezone(timedelta(hours=9)))
    written = RunStart(**start.model_dump() | {"created_at": tokyo})
    assert written.created_at.tzinfo is UTC
    assert json.loads(written.model_dump_json())["created_at"] == "2026-11-29T17:53:12Z"


def test_naive_datetimes_are_refused(start: RunStart) -> None:
    with pytest.raises(ValidationError, match="timezone"):
        RunStart(**start.model_dump() | {"created_at": datetime(2026, 11, 29)})


def test_seeds_keep_every_digit_in_json(start: RunStart) -> None:
    written = start.model_dump_json()
    assert json.loads(written)["seed"] == "18446744073709551615"
    assert RunStart.model_validate_json(written) == start


@pytest.mark.parametrize(
    ("field", "value"),
    [("seed", 2**64), ("seed", -1), ("num_rounds", -1), ("dim", 2**63), ("config", {"x": object()}), ("unknown", 1)],
)
def test_impossible_values_are_refused(start: RunStart, field: str, value: Any) -> None:
    with pytest.raises(ValidationError, match=field):
        RunStart(**start.model_dump() | {field: value})


def test_an_unknown_round_status_is_refused(result: RoundResult) -> None:
    with pytest.raises(ValidationError, match="status"):
        RoundResult(**result.model_dump() | {"status": "fine"})


@pytest.mark.parametrize(
    ("field", "value"),
    [("outcome", "lost"), ("bits_source", "guess"), ("downlink_payload_bytes", -1), ("downlink_envelope_bytes", 2**63)],
)
def test_impossible_values_of_a_client_are_refused(client: ClientResult, field: str, value: Any) -> None:
    with pytest.raises(ValidationError, match=field):
        ClientResult(**client.model_dump() | {field: value})


def test_a_client_with_a_reason_is_rejected_unless_told_otherwise(client: ClientResult) -> None:
    given = client.model_dump(exclude={"outcome"})
    assert ClientResult(**given).outcome == "applied"
    assert ClientResult(**given | {"reject_reason": "NaN"}).outcome == "rejected"
    assert ClientResult(**given | {"reject_reason": "came too late", "outcome": "late"}).outcome == "late"


def test_values_cannot_be_changed(client: ClientResult) -> None:
    with pytest.raises(ValidationError, match="frozen"):
        client.payload_bytes = 0


def test_a_run_with_all_its_rounds_survives_json(
    store: RunStore, start: RunStart, result: RoundResult, client: ClientResult
) -> None:
    run_id = store.create_run(start)
    store.record_round(run_id, result, [client])
    run = store.find_run(run_id)
    assert RunDetail.model_validate_json(run.model_dump_json()) == run
