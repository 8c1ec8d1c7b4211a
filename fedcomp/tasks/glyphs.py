"""The 62 characters of EMNIST ByClass as templates, rendered from fonts that matplotlib ships."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from functools import cache
from importlib.metadata import version
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFilter, ImageFont

CHARACTERS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
"""Label ``k`` is ``CHARACTERS[k]``: the order of EMNIST ByClass."""

FONTS = {
    "DejaVuSans": 4,
    "DejaVuSans-Oblique": 4,
    "DejaVuSansMono": 3,
    "DejaVuSansMono-Oblique": 3,
    "DejaVuSerif": 3,
    "DejaVuSerif-Italic": 3,
    "STIXGeneral": 4,
    "STIXGeneralItalic": 4,
    "STIXGeneralBol": 1,
    "STIXGeneralBolIta": 1,
    "cmb10": 1,
    "cmmi10": 4,
    "cmr10": 4,
    "cmss10": 4,
    "cmti10": 4,
    "cmtt10": 4,
}
"""Fonts that hold all of :data:`CHARACTERS`, each with the thickest ``stroke`` that leaves its holes open."""

TEMPLATE_SIZE = 64
"""Side of a template, in pixels."""

_FONT_SIZE = 96
_LONGER_SIDE = 50.0  # of a capital, in template pixels: EMNIST's share of the image
_SIZE_EXPONENT = 0.5  # 0: "o" as large as "O", as in EMNIST; 1: the font's own sizes
_BLUR = 1.2  # template pixels; keeps the reduction to 28 pixels free of aliasing


def versions() -> dict[str, str]:
    """Return the versions of the packages that decide what a glyph looks like."""
    return {name: version(name) for name in ("matplotlib", "pillow", "numpy")}


def render_templates(font: str, labels: Sequence[int], *, stroke: int) -> NDArray[np.float32]:
    """Render characters upright, centred and with normalised size.

    Parameters
    ----------
    font
        One of :data:`FONTS`.
    labels
        The characters wanted, as indices into :data:`CHARACTERS`.
    stroke
        By how much strokes are thickened on each side, at least 0; one unit is about 1/70 of a capital.

    Returns
    -------
    Array of shape (len(labels), 64, 64) with values in [0, 1]; background and border are exactly 0.

    Raises
    ------
    FileNotFoundError
        When the installed matplotlib lacks the font.
    """
    face = _load_font(font)
    capital = _ink(face, "H", stroke).height
    templates = np.zeros((len(labels), TEMPLATE_SIZE, TEMPLATE_SIZE), dtype=np.float32)
    for template, label in zip(templates, labels, strict=True):
        ink = _ink(face, CHARACTERS[label], stroke)
        longer = max(ink.size)
        scale = _LONGER_SIDE * min(1.0, longer / capital) ** _SIZE_EXPONENT / longer
        width, height = (max(1, round(side * scale)) for side in ink.size)
        canvas = Image.new("L", (TEMPLATE_SIZE, TEMPLATE_SIZE))
        resized = ink.resize((width, height), Image.Resampling.BILINEAR)
        canvas.paste(resized, ((TEMPLATE_SIZE - width) // 2, (TEMPLATE_SIZE - height) // 2))
        template[:] = np.asarray(canvas.filter(ImageFilter.GaussianBlur(_BLUR)), dtype=np.float32) / 255.0
    return templates


@cache
def _load_font(name: str) -> ImageFont.FreeTypeFont:
    return ImageFont.truetype(str(_fonts_dir() / f"{name}.ttf"), _FONT_SIZE, layout_engine=ImageFont.Layout.BASIC)


@cache
def _fonts_dir() -> Path:
    # find_spec does not import matplotlib, which takes a second and writes a font cache.
    spec = importlib.util.find_spec("matplotlib")
    folders = list(spec.submodule_search_locations or ()) if spec else []
    for folder in folders:
        fonts = Path(folder) / "mpl-data" / "fonts" / "ttf"
        if fonts.is_dir():
            return fonts
    raise FileNotFoundError("matplotlib's fonts are missing: reinstall the package matplotlib")


def _ink(face: ImageFont.FreeTypeFont, character: str, stroke: int) -> Image.Image:
    """Return the character cut to its bounding box, ink 255 on 0."""
    side = 2 * _FONT_SIZE
    image = Image.new("L", (side, side))
    corner = (side // 4, side // 4)
    ImageDraw.Draw(image).text(corner, character, fill=255, font=face, stroke_width=stroke)
    return image.crop(image.getbbox())
