"""The arrays of a Flower ArrayRecord as one vector of differences, with integer and bool arrays beside it.

The server fixes which arrays are which: Flower's strategies turn integers into float64 means and float32 into float64
as rounds go by, while clients go on replying with what their model has.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from flwr.app import Array, ArrayRecord
from numpy.typing import NDArray
from torch import Tensor

from fedcomp.errors import DimMismatch, FedcompError, InvalidParams, NonFinite, VectorSpecError
from fedcomp.vectors import TensorSpec, VectorSpec

Values = NDArray[np.generic]

_FLOATS = ("float16", "float32", "float64")
_RAWS = ("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
_NUMPY_STYPE = "numpy.ndarray"


class ArraysMismatch(FedcompError, ValueError):
    """The arrays of an app's reply do not fit those it received."""


def layout_of(arrays: Mapping[str, Array], dtypes: Mapping[str, str]) -> VectorSpec:
    """Return the layout of ``arrays``, in their order.

    Parameters
    ----------
    arrays
        Name to array.
    dtypes
        Name to dtype, where it is another than the array's own.

    Raises
    ------
    VectorSpecError
        For an array that is not float16, float32, float64, integer or bool, or not one of numpy's.
    """
    for name, array in arrays.items():
        if array.stype != _NUMPY_STYPE or array.dtype not in _FLOATS + _RAWS:
            raise VectorSpecError(
                f"array {name!r} is {array.dtype}, serialized as {array.stype}; allowed: float16, float32, float64, "
                f"integer and bool arrays serialized as {_NUMPY_STYPE}: convert it or send it in another record"
            )
    return VectorSpec(
        tuple(TensorSpec(name, tuple(array.shape), dtypes.get(name, array.dtype)) for name, array in arrays.items())
    )


def difference(layout: VectorSpec, received: Mapping[str, Array], trained: Mapping[str, Array]) -> tuple[Tensor, bytes]:
    """Map an app's reply to what travels: trained minus received, and the integer and bool arrays as they are.

    Parameters
    ----------
    layout
        Of ``received``.
    received, trained
        What the app was given, and what it replies with; dtypes may differ, names and shapes may not.

    Returns
    -------
    tuple[Tensor, bytes]
        1-D float32 tensor of ``layout.dim`` coordinates; the raw arrays' bytes, in order, little-endian.

    Raises
    ------
    ArraysMismatch
        When names or shapes differ, or an array cannot be read or holds values that its dtype here cannot.
    NonFinite
        When the difference is not finite; names the array.
    """
    if trained.keys() != received.keys():
        missing, unknown = sorted(received.keys() - trained.keys()), sorted(trained.keys() - received.keys())
        raise ArraysMismatch(
            f"the app's reply lacks arrays {missing} and adds {unknown}; with compression it must reply with the "
            "arrays it received, under their names"
        )
    parts: list[Values] = []
    raw: list[bytes] = []
    for entry in layout.tensors:
        values = _read(entry.name, trained[entry.name])
        if values.shape != entry.shape:
            raise ArraysMismatch(
                f"array {entry.name!r} of the app's reply has shape {values.shape}, the received one {entry.shape}; "
                "with compression the shapes must stay"
            )
        if entry.is_float:
            parts.append(_step(entry.name, _read(entry.name, received[entry.name]), values))
        else:
            raw.append(_as_integers(entry, values).tobytes())
    vector = torch.from_numpy(np.concatenate(parts)) if parts else torch.zeros(0)
    return vector, b"".join(raw)


def read_raw(layout: VectorSpec, data: bytes) -> dict[str, Values]:
    """Read the integer and bool arrays that ``difference`` wrote; views of ``data``.

    Raises
    ------
    DimMismatch
        When their number of bytes is not the layout's.
    InvalidParams
        When a bool is neither 0 nor 1.
    """
    sizes = [entry.numel * _little_endian(entry).itemsize for entry in layout.raws]
    if len(data) != sum(sizes):
        raise DimMismatch(f"integer and bool arrays have {len(data)} bytes, this model has {sum(sizes)}; align models")
    arrays: dict[str, Values] = {}
    start = 0
    for entry, size in zip(layout.raws, sizes, strict=True):
        part = data[start : start + size]
        if entry.dtype == "bool" and part.translate(None, b"\x00\x01"):
            raise InvalidParams(f"bool array {entry.name!r} holds bytes other than 0 and 1; reject the sender")
        arrays[entry.name] = np.frombuffer(part, dtype=_little_endian(entry)).reshape(entry.shape)
        start += size
    return arrays


def moved(
    layout: VectorSpec, received: Mapping[str, Array], vector: Tensor, raw: Mapping[str, Values], *, whole: bool = True
) -> ArrayRecord:
    """Return ``received`` plus ``vector``, in the layout's dtypes, with the ``raw`` arrays in their places.

    Parameters
    ----------
    layout
        Of ``received``.
    received
        What the vector is the difference to; unchanged.
    vector
        float32, shape (layout.dim,).
    raw
        Name to integer or bool array.
    whole
        Whether raw arrays take the layout's dtypes; if not, they keep their own, as means do.

    Raises
    ------
    NonFinite
        When a number left its dtype's range; names the array.
    """
    values = vector.numpy()
    arrays: dict[str, Array] = {}
    start = 0
    for entry in layout.tensors:
        if entry.is_float:
            part = values[start : start + entry.numel].reshape(entry.shape)
            arrays[entry.name] = Array(_sum(entry, _read(entry.name, received[entry.name]), part))
            start += entry.numel
        else:
            item = raw[entry.name]
            arrays[entry.name] = Array(np.asarray(item.astype(entry.dtype) if whole else item))
    return ArrayRecord(arrays)


def _read(name: str, array: Array) -> Values:
    try:
        values: Values = array.numpy()
    except (TypeError, ValueError) as error:
        raise ArraysMismatch(f"array {name!r} cannot be read: {error}; send numpy arrays") from error
    if values.dtype.kind not in "fiub":
        raise ArraysMismatch(f"array {name!r} is {values.dtype}; allowed: float, integer and bool arrays")
    return values


def _step(name: str, received: Values, trained: Values) -> Values:
    """Return trained - received as a flat float32 array; a float16 difference in float16 would be rounded twice."""
    wide = _wide(received.dtype, trained.dtype)
    before, after = received.astype(wide).reshape(-1), trained.astype(wide).reshape(-1)
    with np.errstate(invalid="ignore", over="ignore"):
        # A mask's -inf that stays is no change; inf - inf would be NaN.
        step = np.where(after == before, 0, after - before).astype(np.float32)
    if not np.isfinite(step).all():
        raise NonFinite(
            f"the update of array {name!r} holds a NaN, an infinity or a number beyond float32's range; training "
            "diverged, lower the learning rate"
        )
    return step


def _sum(entry: TensorSpec, received: Values, step: Values) -> Values:
    target = np.dtype(entry.dtype)
    wide = _wide(received.dtype, target)
    with np.errstate(over="ignore"):
        total = np.asarray(received.astype(wide) + step).astype(target)
    if not (np.isfinite(total) | ~np.isfinite(received)).all():
        raise NonFinite(f"array {entry.name!r} left the range of {entry.dtype} with this update; reject the sender")
    return total


def _wide(*dtypes: np.dtype[np.generic]) -> np.dtype[np.generic]:
    """Return float32 where it holds all of these dtypes' numbers as well as a model needs, else float64."""
    narrow = all(dtype in (np.float16, np.float32, np.bool_) for dtype in dtypes)
    return np.dtype(np.float32 if narrow else np.float64)


def _as_integers(entry: TensorSpec, values: Values) -> Values:
    """Return values in the entry's dtype; an app may reply with floats where a mean of integers was sent."""
    whole: Values = np.asarray(np.rint(values)) if values.dtype.kind == "f" else values
    with np.errstate(invalid="ignore"):
        cast = whole.astype(_little_endian(entry))
    if not np.array_equal(cast, whole):
        raise ArraysMismatch(
            f"array {entry.name!r} of the app's reply is {values.dtype} with values that {entry.dtype}, its dtype in "
            "the first round, cannot hold; start with float arrays where training needs them"
        )
    return cast


def _little_endian(entry: TensorSpec) -> np.dtype[np.generic]:
    return np.dtype(entry.dtype).newbyteorder("<")
