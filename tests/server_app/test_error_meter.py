from __future__ import annotations

import pytest
import torch

import fedcomp
from fedcomp.metrics import nmse
from server_app.error_meter import ErrorMeter
from tests.support.runs import final_model, run_in_process, same, settings

IDENTITY = fedcomp.compressor("identity")
VECTORS = [torch.randn(50, generator=torch.Generator().manual_seed(seed)) for seed in range(3)]


def filled(weights: list[float]) -> ErrorMeter:
    meter = ErrorMeter(50)
    for seed, (vector, weight) in enumerate(zip(VECTORS, weights, strict=True)):
        meter.add(IDENTITY.encode(vector, seed=seed), weight=weight, seed=seed)
    return meter


def test_it_is_the_nmse_of_the_metrics() -> None:
    estimate = torch.ones(50)
    assert filled([2.0, 2.0, 2.0]).nmse(estimate) == pytest.approx(nmse(estimate, VECTORS))


def test_a_weight_of_two_is_a_client_twice() -> None:
    estimate = torch.ones(50)
    expected = nmse(estimate, [*VECTORS, VECTORS[2]])
    assert filled([1.0, 1.0, 2.0]).nmse(estimate) == pytest.approx(expected)


def test_without_every_update_there_is_none() -> None:
    meter = filled([1.0, 1.0, 1.0])
    meter.add(b"", weight=1.0, seed=1)
    assert meter.nmse(torch.ones(50)) is None
    meter = ErrorMeter(50)
    assert meter.nmse(torch.ones(50)) is None
    meter.add(IDENTITY.encode(torch.zeros(50), seed=1), weight=1.0, seed=1)
    assert meter.nmse(torch.ones(50)) is None


def test_float32_has_no_error_and_one_bit_that_of_theory() -> None:
    config = settings(task="tests.support.tiny_task:TinyTask:width=400", num_server_rounds=4, measure_nmse=True)
    exact, _ = run_in_process(config | {"compressor": "identity"})
    assert all(item.nmse is not None and item.nmse < 1e-12 for item in exact.rounds)
    one_bit, _ = run_in_process(config | {"compressor": "eden:bits=1"})
    # Four rounds of three independent clients with 4,402 coordinates: the error of a mean is a third of a client's.
    found = [item.nmse for item in one_bit.rounds if item.nmse is not None]
    assert len(found) == 4
    expected = fedcomp.compressor("eden:bits=1").expected_vnmse(4402)
    assert expected is not None
    assert sum(found) / 4 == pytest.approx(expected / 3, rel=0.15)


def test_measuring_changes_neither_model_nor_bytes() -> None:
    plain, _ = run_in_process(settings())
    measured, grid = run_in_process(settings(measure_nmse=True))
    assert same(final_model(plain), final_model(measured))
    for one, other in zip(plain.rounds, measured.rounds, strict=True):
        assert one.uplink_payload_bytes == other.uplink_payload_bytes
        # The request says that it is wanted; the numbers in a reply's config differ by a few digits.
        assert one.uplink_envelope_bytes == pytest.approx(other.uplink_envelope_bytes, abs=64)
        assert (one.nmse is None, other.nmse is None) == (True, False)
    sent = sum(item.uplink_payload_bytes + item.uplink_envelope_bytes for item in measured.rounds)
    assert grid.bytes_back > sent + 3 * 3 * 4 * 442
