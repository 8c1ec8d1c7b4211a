"""A block from float32 coordinates to its scale and packed indices, in one pass over a GPU's memory."""

from __future__ import annotations

from fedcomp.kernels.gpu_rotation import rotate
from fedcomp.kernels.gpu_triton import jit, tl


@jit()
def exponent_of(x: tl.tensor, a: tl.constexpr, b: tl.constexpr) -> tl.tensor:
    """Return e with the largest magnitude of a tensor in [0.5, 1)·2^e, but at least -126: 2^-e stays in range.

    Subnormal numbers times 2^126 are at least 2^-23, so that no square of one is lost either.
    """
    largest = tl.max(tl.reshape(tl.abs(x), [a * b]), axis=0)
    return (largest.to(tl.int32, bitcast=True) >> 23) - 126


@jit()
def power_of_two(exponent: tl.tensor) -> tl.tensor:
    """Return 2^e as float64, exactly."""
    return ((exponent.to(tl.int64) + 1023) << 52).to(tl.float64, bitcast=True)


@jit()
def total(x: tl.tensor, a: tl.constexpr, b: tl.constexpr) -> tl.tensor:
    """Return the sum of an a×b tensor of numbers of one sign to a relative 5e-7, float64.

    Eight numbers of one thread are added in float32, with at most seven roundings of 2^-24 beside that of each number:
    a conversion to float64 takes as long as eight additions.
    """
    eights = tl.sum(tl.reshape(x, [a // 8, 8, b]), axis=1)
    return tl.sum(tl.reshape(eights, [a // 8 * b]).to(tl.float64), axis=0)


@jit()
def quantize(z: tl.tensor, boundaries: tl.tensor, is_first: tl.tensor, bits: tl.constexpr) -> tl.tensor:
    """Return the index of each value's cell by bisection; a value on a boundary belongs to the lower cell.

    The table holds the boundaries of ``bits`` bits, then those of one bit less filled up with infinities to as many.
    The boundary in the middle is 0.
    """
    index = tl.where(is_first & (z > 0), 1 << (bits - 1), 0)
    first = tl.where(is_first, 0, (1 << bits) - 1)
    for step in tl.static_range(bits - 2, -1, -1):
        boundary = tl.load(boundaries + (first + index + ((1 << step) - 1)))
        index += tl.where(z > boundary, 1 << step, 0)
    return index


@jit()
def pack_plane(
    indices: tl.tensor,
    out: tl.tensor,
    first: tl.tensor,
    count: tl.tensor,
    shift: tl.constexpr,
    width: tl.constexpr,
    n: tl.constexpr,
    room: tl.constexpr,
) -> None:
    """Write one plane of ``count`` indices, at most ``room``, from ``first`` on, as coding/bitpack.py lays it out."""
    per_byte: tl.constexpr = 8 // width
    length = count // per_byte
    byte = tl.arange(0, room // per_byte)
    part = tl.arange(0, per_byte)
    # Bytes past the plane's end are made of anything and not written.
    place = tl.minimum(first + part[:, None] * length + byte[None, :], n - 1)
    found = tl.reshape(tl.gather(indices, tl.reshape(place, [room]), axis=0), [per_byte, room // per_byte])
    bits = ((found >> shift) & ((1 << width) - 1)) << (part * width)[:, None]
    out += count * shift // 8
    tl.store(out + byte, tl.sum(bits, axis=0).to(tl.uint8), mask=byte < length)


@jit()
def pack(
    indices: tl.tensor,
    out: tl.tensor,
    first: tl.tensor,
    count: tl.tensor,
    bits: tl.constexpr,
    n: tl.constexpr,
    room: tl.constexpr,
) -> None:
    """Write ``count`` indices of ``bits`` bits from ``first`` on: a plane of 8, or those of 4, 2 and 1 bits."""
    for log_width in tl.static_range(3, -1, -1):
        if bits & (1 << log_width):
            # The planes before hold the lower bits.
            pack_plane(indices, out, first, count, bits & ~((2 << log_width) - 1), 1 << log_width, n, room)


@jit("blocks", "means", "words", "scales", "codes", "code_bytes", "k")
def encode_kernel(
    blocks: tl.tensor,
    means: tl.tensor,
    words: tl.tensor,
    boundaries: tl.tensor,
    centroids: tl.tensor,
    scales: tl.tensor,
    codes: tl.tensor,
    code_bytes: tl.tensor,
    k: tl.tensor,
    a: tl.constexpr,
    b: tl.constexpr,
    rounds: tl.constexpr,
    factor: tl.constexpr,
    bits: tl.constexpr,
    rest: tl.constexpr,
    unbiased: tl.constexpr,
) -> None:
    """Encode one block a program: the first k coordinates with ``bits`` bits, the others with ``rest``."""
    n: tl.constexpr = a * b
    row = tl.program_id(0).to(tl.int64)
    place = tl.arange(0, a)[:, None] * b + tl.arange(0, b)[None, :]
    x = tl.load(blocks + row * n + place) - tl.load(means + row)

    exponent = exponent_of(x, a, b)
    x = x * power_of_two(-exponent).to(tl.float32)
    norm2 = total(x * x, a, b)

    y = rotate(x, words, a, b, rounds, factor)
    is_zero = norm2 == 0
    rms = tl.sqrt(tl.where(is_zero, 1.0, norm2 / n))
    is_first = place < k
    indices = quantize(y * (1 / rms).to(tl.float32), boundaries, is_first, bits)
    centroid = tl.load(centroids + tl.where(is_first, 0, 1 << bits) + indices)
    # An index has the sign of its value, so that no product is negative.
    inner = tl.where(is_zero, 1.0, total(centroid * y, a, b))
    ratio = norm2 / inner if unbiased else tl.where(is_zero, 0.0, inner / total(centroid * centroid, a, b))
    tl.store(scales + row, (ratio * power_of_two(exponent)).to(tl.float32))

    flat = tl.reshape(indices, [n])
    target = codes + row * code_bytes
    pack(flat, target, 0, k, bits, n, n)
    if rest > 0:
        # A budget of whole bits leaves a few coordinates one bit less, since the scales and the header need some.
        if n - k <= n // 8:
            pack(flat, target + bits * k // 8, k, n - k, rest, n, n // 8)
        else:
            pack(flat, target + bits * k // 8, k, n - k, rest, n, n)
