"""A block from its scale and packed indices to float32 coordinates, or into a sum of float64, in one pass."""

from __future__ import annotations

from fedcomp.kernels.gpu_rotation import unrotate
from fedcomp.kernels.gpu_triton import jit, tl


@jit()
def unpack_plane(
    source: tl.tensor,
    position: tl.tensor,
    inside: tl.tensor,
    count: tl.tensor,
    shift: tl.constexpr,
    width: tl.constexpr,
) -> tl.tensor:
    """Return the bits that one plane of ``count`` indices holds of those at ``position``, 0 where not ``inside``."""
    length = count * width // 8
    # position // length: 2^31 / length, rounded up, is exact enough for position·length < 2^31.
    inverse = ((1 << 31) - 1) // length + 1
    part = tl.umulhi(2 * position.to(tl.uint32), inverse.to(tl.uint32)).to(tl.int32)
    # The planes before hold ``shift`` bits of every index.
    byte = tl.load(source + count * shift // 8 + (position - part * length), mask=inside, other=0)
    return ((byte.to(tl.int32) >> (part * width)) & ((1 << width) - 1)) << shift


@jit()
def unpack(
    source: tl.tensor, position: tl.tensor, inside: tl.tensor, count: tl.tensor, bits: tl.constexpr
) -> tl.tensor:
    """Return the indices at ``position`` of ``count`` indices of ``bits`` bits, 0 where not ``inside``."""
    index = tl.where(inside, 0, 0)
    for log_width in tl.static_range(3, -1, -1):
        if bits & (1 << log_width):
            index += unpack_plane(source, position, inside, count, bits & ~((2 << log_width) - 1), 1 << log_width)
    return index


@jit("codes", "code_bytes", "scales", "means", "words", "weight", "out", "k")
def decode_kernel(
    codes: tl.tensor,
    code_bytes: tl.tensor,
    scales: tl.tensor,
    means: tl.tensor,
    words: tl.tensor,
    centroids: tl.tensor,
    weight: tl.tensor,
    out: tl.tensor,
    k: tl.tensor,
    a: tl.constexpr,
    b: tl.constexpr,
    rounds: tl.constexpr,
    factor: tl.constexpr,
    bits: tl.constexpr,
    rest: tl.constexpr,
    accumulate: tl.constexpr,
) -> None:
    """Decode one block a program, or add it with a weight, given as the bits of a float64."""
    n: tl.constexpr = a * b
    row = tl.program_id(0).to(tl.int64)
    place = tl.arange(0, a)[:, None] * b + tl.arange(0, b)[None, :]
    source = codes + row * code_bytes
    is_first = place < k
    indices = unpack(source, place, is_first, k, bits)
    indices += unpack(source + bits * k // 8, place - k, ~is_first, n - k, rest)
    centroid = tl.load(centroids + tl.where(is_first, 0, 1 << bits) + indices)

    estimate = unrotate(centroid, words, a, b, rounds, factor)
    estimate = estimate * tl.load(scales + row) + tl.load(means + row)
    # Near float32's limit an estimate may exceed a value that itself is finite.
    limit: tl.constexpr = 3.4028234663852886e38
    estimate = tl.minimum(tl.maximum(estimate, -limit), limit)
    target = out + row * n + place
    if accumulate:
        weight = weight.to(tl.int64).to(tl.float64, bitcast=True)
        tl.store(target, tl.load(target) + weight * estimate.to(tl.float64))
    else:
        tl.store(target, estimate)
