from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import fedcomp
from fedcomp.errors import ConfigError, InvalidWeight
from fedcomp.metrics import vnmse
from server_app.weights import WEIGHTS, aggregation_weight


@pytest.mark.parametrize(("kind", "expected"), [("examples", 30.0), ("variance", 30.0 / 1.5), ("uniform", 1.0)])
def test_the_three_kinds(kind: str, expected: float) -> None:
    assert aggregation_weight(kind, examples=30, vnmse=0.5, chance=1.0) == pytest.approx(expected)
    assert aggregation_weight(kind, examples=30, vnmse=0.5, chance=0.25) == pytest.approx(4 * expected)


@pytest.mark.parametrize(
    ("reported", "counts_as"),
    [(math.nan, 100), (None, 100), (math.inf, 100), (1e9, 100), (-5, 0), (-math.inf, 0), (0, 0), (30.0, 30)],
)
def test_a_reported_error_counts_within_bounds(reported: float | None, counts_as: float) -> None:
    weight = aggregation_weight("variance", examples=202, vnmse=reported, chance=1.0)
    assert weight == pytest.approx(202 / (1 + counts_as))


@given(st.sampled_from(WEIGHTS), st.floats(0, 2.0**53), st.none() | st.floats(), st.sampled_from([1.0, 2.0]))
def test_no_report_gains_more_than_the_examples(
    kind: str, examples: float, reported: float | None, chance: float
) -> None:
    weight = aggregation_weight(kind, examples=examples, vnmse=reported, chance=chance)
    assert 0 <= weight <= max(examples, 1.0) / chance
    if kind == "variance":
        assert examples / 101 / chance <= weight * (1 + 1e-12) <= examples / chance * (1 + 1e-12)


@pytest.mark.parametrize("examples", [math.nan, math.inf, -1.0, 2.0**60, True, "3", None])
@pytest.mark.parametrize("kind", WEIGHTS)
def test_bad_examples_are_refused(kind: str, examples: float) -> None:
    with pytest.raises(InvalidWeight, match="weight is"):
        aggregation_weight(kind, examples=examples, vnmse=0.0, chance=1.0)


def test_a_weight_that_leaves_the_range_is_refused() -> None:
    with pytest.raises(InvalidWeight):
        aggregation_weight("examples", examples=2.0**53, vnmse=0.0, chance=1e-3)


@pytest.mark.parametrize("chance", [0.0, -1.0, math.nan, math.inf])
def test_bad_chances_are_refused(chance: float) -> None:
    with pytest.raises(ConfigError, match="chance is"):
        aggregation_weight("examples", examples=1.0, vnmse=0.0, chance=chance)


def test_unknown_kinds_are_refused() -> None:
    with pytest.raises(ConfigError, match="weights is 'loss'; allowed: examples, variance, uniform"):
        aggregation_weight("loss", examples=1.0, vnmse=0.0, chance=1.0)


def test_variance_weights_keep_eden_unbiased() -> None:
    # Errors differ from seed to seed here, and the weights with them by 15 %. A weight that went along with the error's
    # direction would leave some of it in the mean: T = R·‖mean−x‖²/(vNMSE·‖x‖²) is 1 for independent errors, with a
    # standard deviation of √(2/256) = 0.09.
    x = torch.randn(256, generator=torch.Generator().manual_seed(3))
    codec = fedcomp.compressor("eden:bits=0.3")
    estimator, errors, weights = fedcomp.MeanEstimator(x.numel()), [], []
    for seed in range(400):
        payload = codec.encode(x, seed=seed)
        error = vnmse(fedcomp.decode(payload, seed=seed), x)
        weight = aggregation_weight("variance", examples=1.0, vnmse=error, chance=1.0)
        estimator.add(payload, weight=weight, seed=seed)
        errors.append(error)
        weights.append(weight)
    assert np.std(weights) > 0.1 * np.mean(weights)
    mean = estimator.result().mean
    assert float(mean @ x / (x @ x)) == pytest.approx(1.0, abs=1e-4)
    assert 400 * vnmse(mean, x) / np.mean(errors) == pytest.approx(1.0, abs=0.3)


def test_variance_weights_lower_the_error_of_unlike_budgets() -> None:
    # Eight clients of independent updates, half of them at 0.1 bits: their plain mean has more error than the weighted.
    generator = torch.Generator().manual_seed(4)
    truth = torch.randn(2048, generator=generator)
    missed: dict[str, list[float]] = {"examples": [], "variance": []}
    for trial in range(20):
        estimators = {kind: fedcomp.MeanEstimator(truth.numel()) for kind in missed}
        for client in range(8):
            codec = fedcomp.compressor("eden", bits=0.1 if client % 2 else 2)
            update = truth + truth.norm() / truth.numel() ** 0.5 * torch.randn(truth.numel(), generator=generator)
            payload = codec.encode(update, seed=100 * trial + client)
            error = vnmse(fedcomp.decode(payload, seed=100 * trial + client), update)
            for kind, estimator in estimators.items():
                weight = aggregation_weight(kind, examples=10.0, vnmse=error, chance=1.0)
                estimator.add(payload, weight=weight, seed=100 * trial + client)
        for kind, estimator in estimators.items():
            missed[kind].append(vnmse(estimator.result().mean, truth))
    assert np.mean(missed["variance"]) < 0.25 * np.mean(missed["examples"])
