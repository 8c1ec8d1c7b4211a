"""How a vector is cut into blocks: whole blocks first, then ever smaller powers of two, never below 256.

Two rounds of the rotation on fewer than 256 coordinates are visibly biased, so a last remainder below 256 is padded
with zeros to 256, or sent raw as float32 when that is shorter. The cut depends on (dim, block, raw or padded) only.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

MIN_BLOCK = 256
SCALE_BYTES = 4
RAW_BYTES = 4


@dataclass(frozen=True)
class Group:
    """``count`` consecutive blocks of ``size`` rotated coordinates; the last one may be partly padding.

    Attributes
    ----------
    size
        Coordinates a block after padding, a power of two.
    count
        How many blocks.
    start, stop
        Which coordinates of the vector they hold; ``stop - start < size * count`` when padded.
    rate
        Rate code of their coordinates (``fedcomp.compressors.rates``), where the scheme has such.
    """

    size: int
    count: int
    start: int
    stop: int
    rate: int = 0

    @property
    def is_padded(self) -> bool:
        """Whether the vector ends within the last block; such a group has only one."""
        return self.stop - self.start < self.size * self.count


@dataclass(frozen=True)
class BlockPlan:
    """The cut of a vector of ``dim`` coordinates.

    Attributes
    ----------
    groups
        The rotated blocks, in order.
    raw
        How many trailing coordinates travel as float32.
    """

    groups: tuple[Group, ...]
    raw: int

    @property
    def num_blocks(self) -> int:
        """Number of rotated blocks, each with a scale of its own."""
        return sum(group.count for group in self.groups)

    @property
    def num_rotated(self) -> int:
        """Number of rotated coordinates, padding included."""
        return sum(group.size * group.count for group in self.groups)


def plan_blocks(dim: int, *, block: int, raw_tail: bool) -> BlockPlan:
    """Return the cut of ``dim`` coordinates into blocks of at most ``block``; a tail below 256 is raw or padded."""
    groups = []
    start, size = 0, block
    while size >= MIN_BLOCK:
        count = (dim - start) // size
        if count:
            groups.append(Group(size, count, start, start + size * count))
            start += size * count
        size //= 2
    rest = dim - start
    if raw_tail or not rest:
        return BlockPlan(tuple(groups), rest)
    return BlockPlan((*groups, Group(MIN_BLOCK, 1, start, dim)), 0)


def at_rate(plan: BlockPlan, rate: int) -> BlockPlan:
    """Return the same cut with one rate code for all blocks."""
    return BlockPlan(tuple(replace(group, rate=rate) for group in plan.groups), plan.raw)


def raw_is_shorter(dim: int, bits: float) -> bool:
    """Whether a tail below 256 is shorter as float32 than as a padded block of ``bits`` bits a coordinate."""
    return dim % MIN_BLOCK * RAW_BYTES <= SCALE_BYTES + MIN_BLOCK * bits / 8
