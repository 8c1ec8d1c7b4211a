"""The Triton kernels in Triton's interpreter, which needs no GPU, against torch; tests/gpu runs them on one."""

from __future__ import annotations

import importlib
import subprocess
import sys
from collections.abc import Iterator
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from torch import Tensor

import fedcomp
from fedcomp import kernels
from fedcomp.coding.bitpack import unpack_bits
from fedcomp.errors import ConfigError
from fedcomp.kernels import eden_rows, gpu, gpu_triton, reference
from fedcomp.metrics import vnmse
from fedcomp.quantizers.codebook import boundaries, dequantize, quantize
from fedcomp.transforms.hadamard import rotate, rotation_signs, unrotate

CPU = torch.device("cpu")
LIMIT = torch.finfo(torch.float32).max
PREFIX = "fedcomp.kernels.gpu"
FUNCTIONS = ("encode_rows", "decode_rows", "accumulate_rows", "rotate_rows", "unrotate_rows")
needs_triton = pytest.mark.skipif(not gpu.is_installed(), reason="Triton is not installed")

# n, rounds, low, k: every number of planes, one part and two, the shortest part of either.
CASES = [
    (256, 2, 1, 0),
    (256, 2, 1, 248),
    (256, 2, 1, 256),
    (256, 1, 0, 8),
    (256, 2, 8, 0),
    (256, 2, 2, 208),
    (256, 2, 2, 224),
    (512, 2, 7, 8),
    (512, 3, 2, 200),
    (512, 4, 4, 80),
    (1024, 2, 5, 1000),
    (1024, 2, 3, 512),
    (1024, 2, 6, 0),
    (2048, 1, 0, 2048),
    (4096, 2, 1, 4072),
    (4096, 2, 8, 0),
]


@pytest.fixture(scope="module")
def interpreted() -> Iterator[ModuleType]:
    """The modules as they are where Triton interprets: that is settled when they are imported."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TRITON_INTERPRET", "1")
        for name in [name for name in sys.modules if name.startswith(PREFIX)]:
            patch.delitem(sys.modules, name)
            patch.delattr(kernels, name.removeprefix("fedcomp.kernels."))
        # Triton's own functions of a kernel are compiled ones by now, but for those that the interpreter has itself.
        import triton.language as tl

        patch.setattr(tl, "sum", lambda x, axis: tl.reduce(x, axis, tl.standard._sum_combine))
        patch.setattr(tl, "max", lambda x, axis: tl.reduce(x, axis, tl.standard._elementwise_max))
        yield importlib.import_module(PREFIX)


def signs_of(n: int, rounds: int) -> Tensor:
    return rotation_signs(2**63 + 5, n, rounds=rounds, device=CPU)


def gaussian(m: int, n: int) -> Tensor:
    return torch.randn((m, n), generator=torch.Generator().manual_seed(m * n))


def parts(n: int, low: int, k: int) -> list[tuple[int, int, int]]:
    """Return first position, last position and bits of what is packed together."""
    return [(start, stop, bits) for start, stop, bits in ((0, k, low + 1), (k, n, low)) if bits and start < stop]


def unpacked(codes: Tensor, n: int, low: int, k: int) -> list[Tensor]:
    ends = torch.tensor([(stop - start) * bits // 8 for start, stop, bits in parts(n, low, k)]).cumsum(0).tolist()
    pieces = [
        codes[:, end - (stop - start) * bits // 8 : end]
        for end, (start, stop, bits) in zip(ends, parts(n, low, k), strict=True)
    ]
    return [
        unpack_bits(piece, bits, stop - start)
        for piece, (start, stop, bits) in zip(pieces, parts(n, low, k), strict=True)
    ]


def estimate(codes: Tensor, scales: Tensor, means: Tensor, signs: Tensor, n: int, low: int, k: int) -> Tensor:
    """Decode with torch operations."""
    centroid = torch.zeros((len(codes), n))
    for indices, (start, stop, bits) in zip(unpacked(codes, n, low, k), parts(n, low, k), strict=True):
        centroid[:, start:stop] = dequantize(indices, bits)
    return (unrotate(centroid, signs) * scales[:, None] + means[:, None]).clamp(-LIMIT, LIMIT)


def check_encoding(
    module: ModuleType, blocks: Tensor, means: Tensor, signs: Tensor, low: int, k: int, *, unbiased: bool
) -> None:
    """Compare with the definition in float64, which no block of float32 numbers leaves."""
    n = blocks.shape[1]
    scales, codes = module.encode_rows(blocks, means, signs, low=low, k=k, unbiased=unbiased)
    assert scales.shape == (len(blocks),)
    assert codes.shape == (len(blocks), (low * n + k) // 8)
    x = (blocks - means[:, None]).double()
    y = rotate(x, signs.double())
    norm2 = x.square().sum(dim=1)
    z = (y / torch.sqrt(torch.where(norm2 > 0, norm2, 1.0) / n)[:, None]).float()
    centroid = torch.zeros_like(y)
    for indices, (start, stop, bits) in zip(unpacked(codes, n, low, k), parts(n, low, k), strict=True):
        centroid[:, start:stop] = dequantize(indices, bits)
        part = z[:, start:stop].contiguous()
        other = indices != quantize(part, bits)
        distance = (part[other][:, None] - boundaries(bits, device=CPU)).abs().amin(dim=1)
        assert (distance <= 1e-6).all()
        assert other.float().mean() < 0.01
    inner = (centroid * y).sum(dim=1)
    ratio = norm2 / inner if unbiased else inner / centroid.square().sum(dim=1)
    expected = torch.where(norm2 > 0, ratio, 0.0)
    assert torch.allclose(scales.double(), expected, rtol=1e-6, atol=2.0**-149)


@needs_triton
@pytest.mark.parametrize("rounds", [1, 2, 3, 4])
@pytest.mark.parametrize("n", [256, 512, 1024, 2048])
def test_rotations_are_torchs_to_the_bit(interpreted: ModuleType, n: int, rounds: int) -> None:
    # Signs for longer blocks, as a payload has them, and not next to each other in memory.
    blocks, signs = gaussian(3, n), signs_of(2 * n, rounds).T.contiguous().T
    blocks[1] = 0
    blocks[2] *= 1e-42
    assert torch.equal(interpreted.rotate_rows(blocks, signs), rotate(blocks, signs))
    assert torch.equal(interpreted.unrotate_rows(blocks, signs), unrotate(blocks, signs))
    assert (
        torch.equal(interpreted.rotate_rows(blocks[:, : n // 2], signs), rotate(blocks[:, : n // 2], signs)) or n == 256
    )


@needs_triton
@pytest.mark.parametrize("unbiased", [True, False])
@pytest.mark.parametrize(("n", "rounds", "low", "k"), CASES)
def test_encoding_is_the_definition(
    interpreted: ModuleType, n: int, rounds: int, low: int, k: int, unbiased: bool
) -> None:
    means = torch.tensor([0.0, 0.5, -3.0])
    check_encoding(interpreted, gaussian(3, n), means, signs_of(n, rounds), low, k, unbiased=unbiased)


@needs_triton
@pytest.mark.parametrize("unbiased", [True, False])
@pytest.mark.parametrize("size", [0.0, 1e-42, 1e-38, 1e-25, 1.0, 1e25, 6e37])
def test_any_magnitude_is_encoded(interpreted: ModuleType, size: float, unbiased: bool) -> None:
    blocks = gaussian(2, 256) * size
    check_encoding(interpreted, blocks, torch.zeros(2), signs_of(256, 2), 1, 64, unbiased=unbiased)


@needs_triton
@pytest.mark.parametrize("size", [2.0**-149, 3 * 2.0**-149, 2.0**-126, 2.0**-127, 1.0, 2.0**127, LIMIT])
def test_one_coordinate_is_encoded(interpreted: ModuleType, size: float) -> None:
    blocks = torch.zeros((2, 256))
    blocks[0, 3] = size
    blocks[1, 200] = -size
    # The rotated numbers are all of one magnitude, 1/16 of it: so is the estimate of least squared error.
    scales, codes = interpreted.encode_rows(blocks, torch.zeros(2), signs_of(256, 1), low=1, k=0, unbiased=False)
    assert torch.allclose(
        scales.double(),
        torch.full((2,), size / 16 / float(dequantize(torch.tensor(1), 1)), dtype=torch.float64),
        rtol=1e-6,
        atol=2.0**-149,
    )
    signs = signs_of(256, 1)
    assert torch.equal(unpack_bits(codes, 1, 256), quantize(rotate(blocks.sign(), signs), 1))


@needs_triton
@pytest.mark.filterwarnings("ignore:overflow encountered:RuntimeWarning")  # meant: what overflows is clamped
@settings(max_examples=40, phases=[Phase.generate])  # interpreted, to shrink an example takes minutes
@given(data=st.data())
def test_decoding_is_torchs_to_the_bit(interpreted: ModuleType, data: st.DataObject) -> None:
    n, rounds = data.draw(st.sampled_from([256, 512])), data.draw(st.integers(1, 4))
    low = data.draw(st.integers(0, 8))
    k = 8 * data.draw(st.integers(low == 0, 0 if low == 8 else n // 8))
    generator = torch.Generator().manual_seed(data.draw(st.integers(0, 2**32)))
    codes = torch.randint(0, 256, (3, (low * n + k) // 8), generator=generator, dtype=torch.uint8)
    numbers = st.floats(-LIMIT, LIMIT, width=32)
    scales, means = torch.tensor(data.draw(st.lists(st.tuples(numbers, numbers), min_size=3, max_size=3))).T
    signs = signs_of(n, rounds)
    expected = estimate(codes, scales, means, signs, n, low, k)
    out = torch.full((5, n), torch.nan)
    interpreted.decode_rows(codes, scales, means, signs, low=low, k=k, out=out[1:4])
    assert torch.equal(out[1:4], expected)
    assert out[[0, 4]].isnan().all()
    weight = data.draw(st.floats(0, 2**53))
    into = torch.randn((3, n), generator=generator, dtype=torch.float64)
    summed = into + weight * expected.double()
    interpreted.accumulate_rows(codes, scales, means, signs, low=low, k=k, into=into, weight=weight)
    assert torch.equal(into, summed)


@needs_triton
@pytest.mark.parametrize(("n", "rounds", "low", "k"), CASES)
def test_encoded_blocks_decode_to_the_same_bits(interpreted: ModuleType, n: int, rounds: int, low: int, k: int) -> None:
    signs, means = signs_of(n, rounds), torch.tensor([0.25, -1e20])
    scales, codes = interpreted.encode_rows(gaussian(2, n), torch.zeros(2), signs, low=low, k=k, unbiased=True)
    out = torch.empty((2, n))
    interpreted.decode_rows(codes, scales, means, signs, low=low, k=k, out=out)
    assert torch.equal(out, estimate(codes, scales, means, signs, n, low, k))


@needs_triton
@pytest.mark.parametrize(("low", "k"), [(1, 248), (1, 128), (0, 8), (7, 8), (8, 0)])
def test_nothing_is_written_past_a_blocks_bytes(interpreted: ModuleType, low: int, k: int) -> None:
    n, signs, length = 256, signs_of(256, 2), (low * 256 + k) // 8
    scales, codes = torch.empty(2), torch.full((2, length + 64), 77, dtype=torch.uint8)
    tables = interpreted._tables(low + (k > 0), CPU)
    arguments = (gaussian(2, n), torch.zeros(2), interpreted._words(signs, n), *tables, scales, codes, length + 64)
    kernel, rate = interpreted.gpu_encode.encode_kernel, interpreted._rate(low, k, n)
    interpreted._launch(kernel, arguments, 2, n, rounds=2, unbiased=True, **rate)
    assert codes[:, length:].eq(77).all()
    expected = interpreted.encode_rows(gaussian(2, n), torch.zeros(2), signs, low=low, k=k, unbiased=True)
    assert torch.equal(codes[:, :length], expected[1])
    assert torch.equal(scales, expected[0])


@needs_triton
@pytest.mark.filterwarnings("ignore:(overflow|invalid value) encountered:RuntimeWarning")
def test_an_overflow_is_seen_in_the_scale(interpreted: ModuleType) -> None:
    blocks = torch.full((1, 256), LIMIT)
    blocks[0, ::2] = -LIMIT
    for unbiased in (True, False):
        scales, _ = interpreted.encode_rows(
            blocks, torch.tensor([LIMIT]), signs_of(256, 2), low=2, k=0, unbiased=unbiased
        )
        assert not scales.isfinite().any()


@needs_triton
@pytest.mark.parametrize("spec", ["eden:bits=2,block=1024", "eden:bits=0.3,block=512", "hadamard:bits=3"])
def test_payloads_of_either_backend_are_read_by_both(
    interpreted: ModuleType, spec: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    x, codec = gaussian(1, 3000)[0] + 1, fedcomp.compressor(spec)

    def use(backend: ModuleType) -> None:
        functions = {name: getattr(backend, name) for name in FUNCTIONS}
        both = SimpleNamespace(**functions, row_moments=reference.row_moments)
        monkeypatch.setattr(eden_rows, "backend_for", lambda _: both)

    def means(payload: bytes) -> tuple[Tensor, Tensor]:
        estimator = fedcomp.MeanEstimator(3000)
        estimator.add(payload, weight=3.0, seed=5)
        return fedcomp.decode(payload, seed=5), estimator.result().mean

    use(interpreted)
    payload = codec.encode(x, seed=5)
    here = means(payload)
    use(reference)
    there = means(payload)
    assert torch.equal(torch.stack(here), torch.stack(there))
    other = codec.encode(x, seed=5)
    assert len(payload) == len(other)
    assert vnmse(fedcomp.decode(other, seed=5), there[0]) < 1e-6


@needs_triton
def test_no_blocks_are_no_launch(interpreted: ModuleType) -> None:
    scales, codes = interpreted.encode_rows(
        torch.empty((0, 256)), torch.empty(0), signs_of(256, 2), low=1, k=8, unbiased=True
    )
    assert (scales.shape, codes.shape) == ((0,), (0, 33))


@needs_triton
def test_blocks_beyond_the_registers_go_to_the_reference(
    interpreted: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    class Reference:
        def __getattr__(self, name: str) -> Any:
            return lambda *_, **__: asked.append(name)

    monkeypatch.setattr(interpreted, "reference", Reference())
    n, signs = 2 * interpreted.MAX_BLOCK, torch.ones((1, 2 * interpreted.MAX_BLOCK))
    blocks, one = torch.zeros((1, n)), torch.zeros(1)
    codes = torch.zeros((1, n // 8), dtype=torch.uint8)
    interpreted.rotate_rows(blocks, signs)
    interpreted.unrotate_rows(blocks, signs)
    interpreted.encode_rows(blocks, one, signs, low=1, k=0, unbiased=True)
    interpreted.decode_rows(codes, one, one, signs, low=1, k=0, out=blocks)
    interpreted.accumulate_rows(codes, one, one, signs, low=1, k=0, into=blocks.double(), weight=1.0)
    assert asked == ["rotate_rows", "unrotate_rows", "encode_rows", "decode_rows", "accumulate_rows"]


@needs_triton
def test_a_cpu_is_refused_with_what_to_do() -> None:
    with pytest.raises(ConfigError, match=r"device is 'cpu'; Triton's kernels run on a CUDA device; move the tensors"):
        gpu.rotate_rows(torch.ones((1, 256)), torch.ones((2, 256)))


def test_without_triton_the_call_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu_triton, "triton", None)
    assert not gpu.is_installed()
    with pytest.raises(ConfigError, match=r"Triton is not installed; run `pip install triton`"):
        gpu.rotate_rows(torch.ones((1, 256)), torch.ones((2, 256)))


def test_the_modules_can_be_imported_without_triton() -> None:
    code = "import sys\nsys.modules['triton'] = None\nfrom fedcomp.kernels import gpu\nsys.exit(gpu.is_installed())\n"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_the_codec_on_a_cpu_never_loads_triton() -> None:
    code = (
        "import sys, torch, fedcomp\n"
        "payload = fedcomp.compressor('eden').encode(torch.ones(300), seed=1)\n"
        "fedcomp.decode(payload, seed=1)\n"
        "sys.exit('triton' in sys.modules)\n"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
