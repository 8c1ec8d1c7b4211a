"""The rotation of a block held in a GPU's registers: the same additions in the same order as transforms/hadamard.py.

A block of n = a·b coordinates is an a×b tensor. While butterflies run down its columns every thread holds a column, so
that a butterfly is an addition and a subtraction of registers; a transposition through shared memory then gives every
thread a row. A rotation of two rounds transposes three times.
"""

from __future__ import annotations

from fedcomp.kernels.gpu_triton import jit, tl


@jit()
def hadamard(x: tl.tensor, a: tl.constexpr, b: tl.constexpr) -> tl.tensor:
    """Apply the unnormalised Hadamard matrix to a block of a·b coordinates, an a×b tensor."""
    columns = butterflies(x, a, b)
    return tl.trans(butterflies(tl.trans(columns), b, a))


@jit()
def butterflies(x: tl.tensor, a: tl.constexpr, b: tl.constexpr) -> tl.tensor:
    """Apply the unnormalised Hadamard matrix to the columns of an a×b tensor, a ≤ 512."""
    for stage in tl.static_range(9):
        if (1 << stage) < a:
            pairs = tl.permute(tl.reshape(x, [a >> (stage + 1), 2, b << stage]), [0, 2, 1])
            first, second = tl.split(pairs)
            pairs = tl.join(first + second, first - second)
            x = tl.reshape(tl.permute(pairs, [0, 2, 1]), [a, b])
    return x


@jit()
def flip(x: tl.tensor, words: tl.tensor, a: tl.constexpr, b: tl.constexpr) -> tl.tensor:
    """Multiply an a×b tensor with signs: word (g, j) of ``words`` holds those of 32 rows from 32·g on in column j."""
    group: tl.constexpr = a if a < 32 else 32
    words += tl.arange(0, a // group)[:, None, None] * b + tl.arange(0, b)[None, None, :]
    bits = tl.load(words) << (31 - tl.arange(0, group))[None, :, None]
    return (x.to(tl.int32, bitcast=True) ^ (tl.reshape(bits, [a, b]) & -0x80000000)).to(tl.float32, bitcast=True)


@jit()
def rotate(
    x: tl.tensor, words: tl.tensor, a: tl.constexpr, b: tl.constexpr, rounds: tl.constexpr, factor: tl.constexpr
) -> tl.tensor:
    """Rotate a block, with ``sign_kernel``'s words; ``factor`` is n^(-rounds/2)."""
    for index in tl.static_range(rounds):
        x = hadamard(flip(x, words + index * ((a + 31) // 32 * b), a, b), a, b)
    return x * factor


@jit()
def unrotate(
    x: tl.tensor, words: tl.tensor, a: tl.constexpr, b: tl.constexpr, rounds: tl.constexpr, factor: tl.constexpr
) -> tl.tensor:
    """Undo ``rotate`` with the same words."""
    for index in tl.static_range(rounds):
        x = flip(hadamard(x, a, b), words + (rounds - 1 - index) * ((a + 31) // 32 * b), a, b)
    return x * factor


@jit("signs", "stride", "words")
def sign_kernel(signs: tl.tensor, stride: tl.tensor, words: tl.tensor, a: tl.constexpr, b: tl.constexpr) -> None:
    """Write the signs of one round a program as bits, 1 where negative: 32 rows of an a×b block a word."""
    group: tl.constexpr = a if a < 32 else 32
    place = tl.arange(0, a)[:, None] * b + tl.arange(0, b)[None, :]
    negative = (tl.load(signs + tl.program_id(0) * stride + place) < 0).to(tl.int32)
    bits = tl.reshape(negative, [a // group, group, b]) << tl.arange(0, group)[None, :, None]
    target = words + tl.program_id(0) * (a // group * b) + tl.arange(0, a // group)[:, None] * b
    tl.store(target + tl.arange(0, b)[None, :], tl.sum(bits, axis=1))


@jit("source", "words", "out")
def rotation_kernel(
    source: tl.tensor,
    words: tl.tensor,
    out: tl.tensor,
    a: tl.constexpr,
    b: tl.constexpr,
    rounds: tl.constexpr,
    factor: tl.constexpr,
    inverse: tl.constexpr,
) -> None:
    """Rotate one block a program, or undo it."""
    place = tl.arange(0, a)[:, None] * b + tl.arange(0, b)[None, :]
    start = tl.program_id(0).to(tl.int64) * (a * b)
    x = tl.load(source + start + place)
    y = unrotate(x, words, a, b, rounds, factor) if inverse else rotate(x, words, a, b, rounds, factor)
    tl.store(out + start + place, y)
