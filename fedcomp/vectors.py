"""VectorSpec: a model's state dict as one flat float32 vector, and back.

Float tensors are concatenated in state-dict order; tied tensors (the same storage under several names) are taken once.
Integer and bool tensors, such as BatchNorm's ``num_batches_tracked``, cannot be averaged as a compressed vector: they
travel raw beside it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from math import prod

import torch
from torch import Tensor

from fedcomp.errors import VectorSpecError


@dataclass(frozen=True)
class TensorSpec:
    """One entry of a state dict.

    Attributes
    ----------
    name, shape, dtype
        As in the state dict; dtype without ``torch.``.
    tied_to
        The earlier name whose storage this entry shares, or None.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    tied_to: str | None = None

    @property
    def numel(self) -> int:
        """Number of coordinates."""
        return prod(self.shape)

    @property
    def torch_dtype(self) -> torch.dtype:
        """The dtype as torch has it."""
        dtype: torch.dtype = getattr(torch, self.dtype)
        return dtype

    @property
    def is_float(self) -> bool:
        """Whether the entry is part of the flat vector (tied entries are so through the one they are tied to)."""
        return self.torch_dtype.is_floating_point


@dataclass(frozen=True)
class VectorSpec:
    """The layout of a state dict.

    >>> import torch
    >>> spec = VectorSpec.from_state_dict(torch.nn.Linear(2, 3).state_dict())
    >>> spec.dim, spec.shapes
    (9, [(3, 2), (3,)])
    """

    tensors: tuple[TensorSpec, ...]

    @classmethod
    def from_state_dict(cls, state: Mapping[str, Tensor]) -> VectorSpec:
        """Read the layout of ``state``.

        Raises
        ------
        VectorSpecError
            For an entry that is not a dense float, integer or bool tensor.
        """
        entries: list[TensorSpec] = []
        first_name: dict[tuple[object, ...], str] = {}
        for name, tensor in state.items():
            _check_sendable(name, tensor)
            dtype = str(tensor.dtype).removeprefix("torch.")
            # Empty and meta tensors have no memory of their own, so equal addresses tell nothing.
            key = (tensor.data_ptr(), tuple(tensor.shape), tensor.stride(), dtype, str(tensor.device))
            shares_memory = tensor.numel() > 0 and tensor.device.type != "meta"
            tied_to = first_name.setdefault(key, name) if shares_memory else name
            entries.append(TensorSpec(name, tuple(tensor.shape), dtype, None if tied_to == name else tied_to))
        return cls(tuple(entries))

    @property
    def floats(self) -> tuple[TensorSpec, ...]:
        """The entries that make up the vector, in order."""
        return tuple(entry for entry in self.tensors if entry.is_float and entry.tied_to is None)

    @property
    def raws(self) -> tuple[TensorSpec, ...]:
        """The integer and bool entries that travel beside the vector."""
        return tuple(entry for entry in self.tensors if not entry.is_float and entry.tied_to is None)

    @property
    def dim(self) -> int:
        """Number of coordinates of the vector."""
        return sum(entry.numel for entry in self.floats)

    @property
    def shapes(self) -> list[tuple[int, ...]]:
        """The float tensors' shapes in order, as ``Compressor.encode`` takes them."""
        return [entry.shape for entry in self.floats]

    @property
    def fingerprint(self) -> str:
        """16 hexadecimal digits that agree when two layouts do."""
        layout = json.dumps([[entry.name, entry.shape, entry.dtype, entry.tied_to] for entry in self.tensors])
        return hashlib.blake2b(layout.encode(), digest_size=8, person=b"fedcomp-layout").hexdigest()

    def flatten(self, state: Mapping[str, Tensor]) -> Tensor:
        """Map a state dict of this layout to its vector, float32, shape (dim,); a copy.

        Raises
        ------
        VectorSpecError
            When a name, shape or dtype differs.
        """
        self._check(state)
        parts = [state[entry.name].detach().reshape(-1).to(torch.float32) for entry in self.floats]
        return torch.cat(parts) if parts else torch.zeros(0)

    def raw(self, state: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Return copies of the integer and bool tensors of a state dict of this layout."""
        self._check(state)
        return {entry.name: state[entry.name].detach().clone() for entry in self.raws}

    def unflatten(self, vector: Tensor, raw: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Map a vector and the raw tensors back to a state dict with the original shapes, dtypes and ties.

        Raises
        ------
        VectorSpecError
            When the vector has another dim, or a raw tensor is missing or of another shape or dtype.
        """
        if vector.shape != (self.dim,):
            raise VectorSpecError(f"vector has shape {tuple(vector.shape)}, this layout needs ({self.dim},)")
        state: dict[str, Tensor] = {}
        start = 0
        for entry in self.tensors:
            if entry.tied_to is not None:
                state[entry.name] = state[entry.tied_to]
            elif entry.is_float:
                part = vector[start : start + entry.numel]
                state[entry.name] = part.reshape(entry.shape).to(entry.torch_dtype, copy=True)
                start += entry.numel
            else:
                if entry.name not in raw:
                    raise VectorSpecError(f"raw tensor {entry.name!r} is missing; this layout has it")
                _check_entry(entry, raw[entry.name])
                state[entry.name] = raw[entry.name].clone()
        return state

    def _check(self, state: Mapping[str, Tensor]) -> None:
        names = [entry.name for entry in self.tensors]
        if set(state) != set(names):
            missing, extra = sorted(set(names) - set(state)), sorted(set(state) - set(names))
            raise VectorSpecError(f"state dict is of another layout: missing {missing}, unknown {extra}")
        for entry in self.tensors:
            _check_entry(entry, state[entry.name])


def _check_sendable(name: str, tensor: Tensor) -> None:
    if not isinstance(tensor, Tensor):
        raise VectorSpecError(f"{name!r} is a {type(tensor).__name__}; only tensors can be sent, exclude it")
    if tensor.layout != torch.strided or tensor.is_quantized or tensor.is_complex():
        raise VectorSpecError(
            f"{name!r} is a tensor of {tensor.dtype}, layout {tensor.layout}; only dense float, integer and bool "
            "tensors can be sent: convert it (torch.view_as_real, .to_dense(), .dequantize()) or exclude it"
        )


def _check_entry(entry: TensorSpec, tensor: Tensor) -> None:
    if tuple(tensor.shape) != entry.shape or tensor.dtype != entry.torch_dtype:
        raise VectorSpecError(
            f"{entry.name!r} is {tensor.dtype} of shape {tuple(tensor.shape)}, "
            f"this layout has torch.{entry.dtype} of shape {entry.shape}"
        )
