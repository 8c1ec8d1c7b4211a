"""A payload's blocks in whichever code: the plain one by the kernels in one pass, the others by ``eden_coded``."""

from __future__ import annotations

import torch
from torch import Tensor

from fedcomp.compressors.blocks import BlockPlan
from fedcomp.compressors.eden_blocks import Rotation, accumulate_blocks, check_blocks, decode_blocks, encode_blocks
from fedcomp.compressors.eden_coded import CodedBlocks, encode_coded
from fedcomp.compressors.eden_codes import Code


def encode_body(x: Tensor, plan: BlockPlan, means: Tensor, rotation: Rotation, code: Code, *, unbiased: bool) -> bytes:
    """Map a vector to its body; see ``eden_blocks.encode_blocks``."""
    if code.is_plain:
        return encode_blocks(x, plan, means, rotation, unbiased=unbiased)
    return encode_coded(x, plan, means, rotation, code, unbiased=unbiased)


def decode_body(
    body: memoryview,
    plan: BlockPlan,
    rotation: Rotation,
    code: Code,
    *,
    has_means: bool,
    dim: int,
    device: torch.device,
) -> Tensor:
    """Map a body to the estimate of the ``dim`` coordinates; raises InvalidParams or NonFinite."""
    if not code.is_plain:
        return CodedBlocks(body, plan, rotation, code, has_means=has_means, device=device).decode(dim)
    mean_bytes = check_blocks(body, plan, has_means=has_means)
    return decode_blocks(body, plan, rotation, mean_bytes=mean_bytes, dim=dim, device=device)


def accumulate_body(
    body: memoryview,
    plan: BlockPlan,
    rotation: Rotation,
    code: Code,
    *,
    has_means: bool,
    into: Tensor,
    weight: float,
) -> None:
    """Add ``weight`` times the estimate to ``into``, float64; what is refused is before the first addition."""
    if not code.is_plain:
        blocks = CodedBlocks(body, plan, rotation, code, has_means=has_means, device=into.device)
        blocks.accumulate(into, weight)
        return
    mean_bytes = check_blocks(body, plan, has_means=has_means)
    accumulate_blocks(body, plan, rotation, mean_bytes=mean_bytes, into=into, weight=weight)
