from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch import Tensor

from fedcomp.errors import DimMismatch, InvalidWeight, NonFinite
from server_app.outliers import OutlierReport

DIM = 5000


def honest(clients: int, *, seed: int, mixing: float = 0.5) -> list[Tensor]:
    """Updates of clients with label mixtures of their own: ten directions and a common one, noise, other lengths."""
    draw = np.random.default_rng(seed)
    classes = draw.standard_normal((10, DIM)) + draw.standard_normal(DIM)
    mixtures = draw.dirichlet([mixing] * 10, size=clients)
    noise = 0.3 * draw.standard_normal((clients, DIM))
    lengths = draw.lognormal(0.0, 0.2, size=(clients, 1))
    return list(torch.from_numpy(lengths * (mixtures @ classes + noise)).float())


def filled(vectors: list[Tensor], *, seed: int = 7, weights: list[float] | None = None) -> OutlierReport:
    report = OutlierReport(vectors[0].numel(), seed=seed)
    for index, vector in enumerate(vectors):
        report.add(f"client-{index}", vector, 1.0 if weights is None else weights[index])
    return report


def flagged(report: OutlierReport) -> set[str]:
    return {client.name for client in report.report() if client.flag is not None}


@pytest.mark.parametrize("seed", range(8))
def test_exactly_the_bad_clients_are_flagged(seed: int) -> None:
    vectors = honest(20, seed=seed)
    vectors[3] = -vectors[3]
    vectors[11] = 50 * vectors[11]
    report = filled(vectors, seed=seed, weights=[float(10 + index) for index in range(20)])
    assert flagged(report) == {"client-3", "client-11"}
    entries = report.report()
    assert "cosine -0." in str(entries[3].flag)
    assert "norm" in str(entries[11].flag)
    assert "cosine" not in str(entries[11].flag)


@pytest.mark.parametrize("seed", range(8))
def test_honest_clients_are_not_flagged(seed: int) -> None:
    assert flagged(filled(honest(20, seed=seed), seed=seed)) == set()


@pytest.mark.parametrize("seed", range(5))
def test_clients_that_have_nothing_in_common_are_not_flagged(seed: int) -> None:
    # About half of their cosines are below zero.
    vectors = list(torch.randn(20, DIM, generator=torch.Generator().manual_seed(seed)))
    assert flagged(filled(vectors, seed=seed)) == set()
    assert min(entry.cosine for entry in filled(vectors, seed=seed).report()) < 0


def test_a_norm_is_judged_by_scaled_median_deviations() -> None:
    # Lengths 1…10 and x: the median is 6, the deviations' median 3, and 6 + 3.5·1.4826·3 = 21.57.
    def with_last(length: float) -> set[str]:
        return flagged(filled([size * torch.ones(300) for size in (*range(1, 11), length)]))

    assert with_last(21.5) == set()
    assert with_last(21.6) == {"client-10"}


def test_both_reasons_are_given() -> None:
    vectors = honest(20, seed=1)
    vectors[5] = -50 * vectors[5]
    (entry,) = [client for client in filled(vectors).report() if client.flag]
    assert entry.name == "client-5"
    assert "norm" in str(entry.flag)
    assert "; cosine" in str(entry.flag)


def test_a_short_update_is_no_outlier() -> None:
    vectors = honest(20, seed=1)
    vectors[5] = vectors[5] / 1000
    vectors[6] = torch.zeros(DIM)
    report = filled(vectors)
    assert flagged(report) == set()
    assert report.report()[6].cosine == 0.0


def test_few_clients_are_not_judged() -> None:
    vectors = honest(5, seed=2)
    vectors[0] = -50 * vectors[0]
    assert flagged(filled(vectors[:4])) == set()
    assert flagged(filled(vectors)) == {"client-0"}


def test_like_clients_are_not_split_by_a_hair() -> None:
    vectors = [torch.ones(DIM) * (1 + 0.001 * (index == 0)) for index in range(9)]
    assert flagged(filled(vectors)) == set()
    vectors[0] = 1.65 * torch.ones(DIM)
    assert flagged(filled(vectors)) == set()
    vectors[0] = 1.75 * torch.ones(DIM)
    assert flagged(filled(vectors)) == {"client-0"}


def test_fewer_bits_make_no_outlier_where_the_scheme_says_what_it_adds() -> None:
    # Two clients at few bits decode to vectors of three times the length: v = 8.
    vectors = honest(12, seed=3)
    noise = torch.randn(2, DIM, generator=torch.Generator().manual_seed(1))
    plain, told = OutlierReport(DIM, seed=1), OutlierReport(DIM, seed=1)
    for index, vector in enumerate(vectors):
        decoded = vector
        if index < 2:
            decoded = vector + 8**0.5 * vector.norm() / DIM**0.5 * noise[index]
        plain.add(f"client-{index}", decoded, 1.0)
        told.add(f"client-{index}", decoded, 1.0, expected_vnmse=8.0 if index < 2 else 0.0)
    assert flagged(plain) == {"client-0", "client-1"}
    assert flagged(told) == set()
    assert told.report()[0].norm == plain.report()[0].norm


def true_cosines(vectors: list[Tensor], weights: list[float]) -> list[float]:
    norms = [float(vector.double().norm()) for vector in vectors]
    usual = float(np.median(norms))
    counted = [
        weight * min(1.0, usual / norm) * vector.double()
        for vector, weight, norm in zip(vectors, weights, norms, strict=True)
    ]
    total = torch.stack(counted).sum(dim=0)
    return [
        float(torch.nn.functional.cosine_similarity(vector.double(), total - own, dim=0))
        for vector, own in zip(vectors, counted, strict=True)
    ]


def test_norms_are_exact_and_cosines_within_their_error() -> None:
    vectors = honest(10, seed=4)
    vectors[2] = 30 * vectors[2]
    weights = [1.0, 5.0, 2.0, 2.0, 3.0, 1.0, 1.0, 1.0, 8.0, 2.0]
    missed = []
    for seed in range(30):
        entries = filled(vectors, seed=seed, weights=weights).report()
        assert [entry.norm for entry in entries] == pytest.approx([float(v.double().norm()) for v in vectors])
        missed += [entry.cosine - cosine for entry, cosine in zip(entries, true_cosines(vectors, weights), strict=True)]
    assert np.sqrt(np.mean(np.square(missed))) < 1.2 / 16
    assert abs(np.mean(missed)) < 0.02


def test_vectors_whose_energy_is_in_every_256th_coordinate_are_told_apart() -> None:
    # Folding rows of 256 without random places would put all of them into one number.
    missed = []
    for seed in range(40):
        generator = torch.Generator().manual_seed(seed)
        vectors = [torch.zeros(DIM * 8) for _ in range(2)]
        for vector in vectors:
            vector[::256] = torch.randn(vector[::256].numel(), generator=generator)
        cosine = float(torch.nn.functional.cosine_similarity(vectors[0], vectors[1], dim=0))
        missed.append(filled(vectors, seed=seed).report()[0].cosine - cosine)
    assert np.sqrt(np.mean(np.square(missed))) < 1.5 / 16


def test_vectors_with_a_mean_are_told_apart() -> None:
    # Without signs all places would hold about the same sum, whatever the vector.
    left, right = torch.ones(2 * DIM), torch.ones(2 * DIM)
    left[:DIM], right[DIM:] = 0.0, 0.0
    missed = [filled([left, right], seed=seed).report()[0].cosine for seed in range(30)]
    assert np.sqrt(np.mean(np.square(missed))) < 1.5 / 16


def test_chunks_make_no_difference_to_the_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("server_app.outliers._CHUNK", 1001)
    vectors = honest(20, seed=5)
    vectors[3] = -vectors[3]
    # The same numbers in another order of chunks: places that repeat from chunk to chunk would make them one vector.
    halves = torch.randn(2, 1001, generator=torch.Generator().manual_seed(1))
    missed = [filled([halves.flatten(), halves.flip(0).flatten()], seed=seed).report()[0].cosine for seed in range(30)]
    assert np.sqrt(np.mean(np.square(missed))) < 1.5 / 16
    assert flagged(filled(vectors)) == {"client-3"}


def test_the_same_seed_gives_the_same_report() -> None:
    vectors = honest(6, seed=6)
    assert filled(vectors, seed=1).report() == filled(vectors, seed=1).report()
    assert filled(vectors, seed=1).report() != filled(vectors, seed=2).report()


def test_nothing_and_one_client() -> None:
    assert OutlierReport(10, seed=1).report() == []
    (entry,) = filled([torch.ones(10)]).report()
    assert entry.norm == pytest.approx(math.sqrt(10))
    assert (entry.cosine, entry.flag) == (0.0, None)
    assert [entry.cosine for entry in filled([torch.ones(10)] * 2, weights=[0.0, 0.0]).report()] == [0.0, 0.0]


@pytest.mark.parametrize("size", [1e-42, 1e25, 1e37])
def test_extreme_sizes_survive(size: float) -> None:
    entries = filled([size * torch.ones(DIM)] * 6).report()
    assert [entry.cosine for entry in entries] == pytest.approx([1.0] * 6)
    assert entries[0].norm == pytest.approx(float(torch.tensor(size)) * DIM**0.5, rel=1e-6)


def test_strided_half_precision_and_gradients_are_taken() -> None:
    vector = torch.arange(2.0 * 50, requires_grad=True)[::2]
    report = filled([vector, vector.detach().bfloat16()])
    assert [entry.cosine for entry in report.report()] == pytest.approx([1.0, 1.0], abs=1e-3)


def test_what_cannot_be_used_leaves_the_report_as_it_was() -> None:
    report = filled(honest(3, seed=1))
    before = report.report()
    with pytest.raises(DimMismatch, match="dim 5000"):
        report.add("x", torch.ones(4), 1.0)
    with pytest.raises(NonFinite, match="vector of x holds"):
        report.add("x", torch.full((DIM,), math.nan), 1.0)
    with pytest.raises(NonFinite):
        report.add("x", torch.full((DIM,), -math.inf), 1.0)
    with pytest.raises(InvalidWeight):
        report.add("x", torch.ones(DIM), -1.0)
    assert report.report() == before
