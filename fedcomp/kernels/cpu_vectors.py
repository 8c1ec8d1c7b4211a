"""Butterflies on vectors of sixteen float32, written in LLVM's own instructions.

A compiler does not find these by itself: neighbouring coordinates are exchanged inside a vector, and up to sixteen
vectors stay in registers through four stages. LLVM maps them to what the processor has; every addition and subtraction
is the one that ``fedcomp.transforms.hadamard`` does, so all bits are the same.
"""

# numba passes all arguments of what is declared here, needed or not.
# ruff: noqa: ARG001

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

LANES = 16
_VECTOR = ir.VectorType(ir.FloatType(), LANES)
_INT = ir.IntType(64)


def _butterflies(radix: int, *, signed: bool) -> Any:
    """Return a function of (x, offset, stride[, signs]) that transforms ``radix`` vectors of x in place.

    They begin at ``offset``, ``offset + stride``, …. With ``signs`` each is first multiplied by the same place of it.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Sequence[Any]) -> Any:
        x, offset, stride, *signs = _data(context, builder, signature, arguments)
        places = [builder.add(offset, builder.mul(stride, _INT(index))) for index in range(radix)]
        vectors = [_load(builder, x, place) for place in places]
        for row in signs:
            vectors = [builder.fmul(item, _load(builder, row, at)) for item, at in zip(vectors, places, strict=True)]
        for vector, place in zip(_across(builder, vectors), places, strict=True):
            _store(builder, vector, x, place)
        return context.get_dummy_value()

    # numba takes the number of arguments from the function's signature.
    if signed:

        def with_signs(typing: Any, x: Any, offset: Any, stride: Any, signs: Any) -> Any:
            return types.void(x, offset, stride, signs), generate

        return _declare(with_signs)

    def without_signs(typing: Any, x: Any, offset: Any, stride: Any) -> Any:
        return types.void(x, offset, stride), generate

    return _declare(without_signs)


def _neighbours(count: int) -> Any:
    """Return a function of (x, offset) that transforms ``count``·16 neighbouring coordinates of x in place."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Sequence[Any]) -> Any:
        x, offset = _data(context, builder, signature, arguments)
        places = [builder.add(offset, _INT(LANES * index)) for index in range(count)]
        vectors = [_within(builder, _load(builder, x, place)) for place in places]
        for vector, place in zip(_across(builder, vectors), places, strict=True):
            _store(builder, vector, x, place)
        return context.get_dummy_value()

    def neighbours(typing: Any, x: Any, offset: Any) -> Any:
        return types.void(x, offset), generate

    return _declare(neighbours)


def _fused_multiply_add(typing: Any, factor: Any, value: Any, addend: Any) -> Any:
    """Type a function of three float64 that returns factor·value + addend, rounded once."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Sequence[Any]) -> Any:
        return builder.fma(*arguments)

    return types.float64(types.float64, types.float64, types.float64), generate


def _declare(function: Callable[..., Any]) -> Any:
    return intrinsic(function)


def _data(context: Any, builder: Any, signature: Any, arguments: Sequence[Any]) -> list[Any]:
    """Return the arguments with arrays replaced by the pointers to their data."""
    pairs = zip(signature.args, arguments, strict=True)
    return [
        context.make_array(kind)(context, builder, value).data if isinstance(kind, types.Array) else value
        for kind, value in pairs
    ]


def _load(builder: Any, data: Any, place: Any) -> Any:
    loaded = builder.load(builder.bitcast(builder.gep(data, [place]), _VECTOR.as_pointer()))
    loaded.align = 4
    return loaded


def _store(builder: Any, vector: Any, data: Any, place: Any) -> None:
    builder.store(vector, builder.bitcast(builder.gep(data, [place]), _VECTOR.as_pointer())).align = 4


def _across(builder: Any, vectors: list[Any]) -> list[Any]:
    """Transform along the vectors: stages of span 1, 2, 4, …; entry i pairs with i + span."""
    span = 1
    while span < len(vectors):
        pairs = [(vectors[index & ~span], vectors[index | span]) for index in range(len(vectors))]
        steps = [builder.fsub if index & span else builder.fadd for index in range(len(vectors))]
        vectors = [step(*pair) for step, pair in zip(steps, pairs, strict=True)]
        span *= 2
    return vectors


def _within(builder: Any, vector: Any) -> Any:
    """Transform the sixteen coordinates of one vector: b + (−a) is b − a to the bit."""
    for span in (1, 2, 4, 8):
        order = ir.Constant(ir.VectorType(ir.IntType(32), LANES), [lane ^ span for lane in range(LANES)])
        partner = builder.shuffle_vector(vector, ir.Constant(_VECTOR, ir.Undefined), order)
        signs = ir.Constant(_VECTOR, [-1.0 if lane & span else 1.0 for lane in range(LANES)])
        vector = builder.fadd(partner, builder.fmul(vector, signs))
    return vector


signed_butterflies_16 = _butterflies(16, signed=True)
butterflies_2 = _butterflies(2, signed=False)
butterflies_4 = _butterflies(4, signed=False)
butterflies_8 = _butterflies(8, signed=False)
butterflies_16 = _butterflies(16, signed=False)
neighbours_16 = _neighbours(1)
neighbours_32 = _neighbours(2)
neighbours_64 = _neighbours(4)
neighbours_128 = _neighbours(8)
neighbours_256 = _neighbours(16)
fused_multiply_add = _declare(_fused_multiply_add)
