"""Simulated writers: each has a font, a hand of its own and its own share of every character."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedcomp.tasks.glyphs import CHARACTERS, FONTS, TEMPLATE_SIZE, render_templates

GENERATOR_VERSION = 1
"""Raised whenever the same arguments would give other pixels or labels."""

IMAGE_SIZE = 28
_GRID = 5  # control points of an elastic field along each side
_WRITER_FIELD = 0.06  # standard deviation of a displacement; 1 is half the image
_SAMPLE_FIELD = 0.045


@dataclass(frozen=True)
class _Style:
    """What is the same in everything one writer writes."""

    font: str
    stroke: int
    slant: float
    rotation: float
    scale: tuple[float, float]
    field: NDArray[np.float64]  # (62, 2, grid, grid)


def write(writer: str, examples: int, *, seed: int, alpha: float | None) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Map a writer's name to the characters this writer writes.

    Parameters
    ----------
    writer
        Any text; each writer has its own random stream, so what one writes never depends on another.
    examples
        How many characters, 0 or more.
    seed
        Seed of the whole data set.
    alpha
        Concentration of the symmetric Dirichlet distribution from which the writer's shares of the 62 classes are
        drawn; small is skewed. ``None``: every class equally often, up to one.

    Returns
    -------
    Images of shape (examples, 28, 28), ink 255 on background 0, and labels of shape (examples,), 0 to 61. The same
    arguments give the same bytes with the same versions of numpy, Pillow and matplotlib.
    """
    rng = stream(seed, writer)
    style = _draw_style(rng)
    labels = _draw_labels(rng, examples, alpha)
    used, which = np.unique(labels, return_inverse=True)
    templates = render_templates(style.font, used.tolist(), stroke=style.stroke)
    ink = _warp(templates, which, _draw_positions(rng, style, labels))
    return np.rint(255.0 * np.clip(1.15 * ink, 0.0, 1.0)).astype(np.uint8), labels


def stream(seed: int, purpose: str) -> np.random.Generator:
    """Return the random stream that belongs to a seed and a purpose, such as a writer's name."""
    digest = hashlib.blake2b(f"fedcomp glyphs/{seed}/{purpose}".encode(), digest_size=16).digest()
    return np.random.Generator(np.random.PCG64(int.from_bytes(digest, "big")))


def _draw_style(rng: np.random.Generator) -> _Style:
    size, aspect = rng.uniform(0.85, 1.05), np.exp(rng.normal(0.0, 0.12))
    font = list(FONTS)[rng.integers(len(FONTS))]
    return _Style(
        font=font,
        stroke=int(rng.integers(FONTS[font] + 1)),
        slant=rng.normal(0.05, 0.2),
        rotation=rng.normal(0.0, 0.08),
        scale=(size * aspect, size / aspect),
        field=_WRITER_FIELD * rng.standard_normal((len(CHARACTERS), 2, _GRID, _GRID)),
    )


def _draw_labels(rng: np.random.Generator, examples: int, alpha: float | None) -> NDArray[np.int64]:
    classes = len(CHARACTERS)
    if alpha is None:
        return np.resize(rng.permutation(classes), examples).astype(np.int64)
    return rng.choice(classes, size=examples, p=rng.dirichlet(np.full(classes, alpha))).astype(np.int64)


def _draw_positions(rng: np.random.Generator, style: _Style, labels: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return where in its template each pixel of each image looks: (n, 2 for x and y, 28, 28), [-1, 1] is inside."""
    n = len(labels)
    angle = style.rotation + rng.normal(0.0, 0.06, n)
    slant = style.slant + rng.normal(0.0, 0.07, n)
    scale = np.array(style.scale) * np.exp(rng.normal(0.0, 0.05, (n, 2)))
    cos, sin = np.cos(angle), np.sin(angle)
    affine = np.empty((n, 2, 2))
    affine[:, 0, 0], affine[:, 0, 1] = cos + slant * sin, sin - slant * cos
    affine[:, 1, 0], affine[:, 1, 1] = -sin, cos
    affine /= scale[:, :, None]
    field = style.field[labels] + _SAMPLE_FIELD * rng.standard_normal((n, 2, _GRID, _GRID))

    axis = (np.arange(IMAGE_SIZE) + 0.5) * 2 / IMAGE_SIZE - 1
    smooth = np.exp(-0.5 * ((axis[:, None] - np.linspace(-1, 1, _GRID)) / 0.35) ** 2)
    smooth /= np.linalg.norm(smooth, axis=1, keepdims=True)  # so that a displacement has the field's deviation
    y, x = np.meshgrid(axis, axis, indexing="ij")
    straight = np.einsum("nij,jyx->niyx", affine, np.stack([x, y]))
    shift = rng.normal(0.0, 0.04, (n, 2, 1, 1))
    # einsum's own loops: a BLAS may sum in another order with another number of threads.
    bent = np.einsum("niyb,xb->niyx", np.einsum("ya,niab->niyb", smooth, field), smooth)
    return np.asarray(straight + shift + bent)


def _warp(
    templates: NDArray[np.float32], which: NDArray[np.intp], positions: NDArray[np.float64]
) -> NDArray[np.float32]:
    """Look the positions up in each image's template, with bilinear interpolation; outside is background."""
    pixels = np.clip((positions + 1) * (TEMPLATE_SIZE / 2) - 0.5, 0, TEMPLATE_SIZE - 1.001)
    corner = pixels.astype(np.intp)
    right, down = np.moveaxis((pixels - corner).astype(np.float32), 1, 0)
    column, row = np.moveaxis(corner, 1, 0)
    image = which.reshape(-1, 1, 1)
    above = templates[image, row, column] * (1 - right) + templates[image, row, column + 1] * right
    below = templates[image, row + 1, column] * (1 - right) + templates[image, row + 1, column + 1] * right
    return np.asarray(above * (1 - down) + below * down, dtype=np.float32)
