from __future__ import annotations

import string

import numpy as np
import pytest
from numpy.typing import NDArray

from fedcomp.tasks import glyphs
from fedcomp.tasks.glyphs import CHARACTERS, FONTS, render_templates


def render(font: str, characters: str, stroke: int = 0) -> NDArray[np.float32]:
    return render_templates(font, [CHARACTERS.index(character) for character in characters], stroke=stroke)


def test_characters_are_in_the_order_of_emnist_byclass() -> None:
    assert string.digits + string.ascii_uppercase + string.ascii_lowercase == CHARACTERS


@pytest.mark.parametrize("font", FONTS)
@pytest.mark.parametrize("thick", [False, True])
def test_every_font_draws_every_character(font: str, thick: bool) -> None:
    templates = render(font, CHARACTERS, FONTS[font] if thick else 0)
    assert templates.shape == (62, 64, 64)
    assert templates.dtype == np.float32
    assert templates.min() == 0.0
    assert templates.max() <= 1.0
    ink = templates.sum(axis=(1, 2))
    assert (ink > 80).all()
    assert (ink < 64 * 64 / 2).all()
    for edge in (templates[:, 0], templates[:, -1], templates[:, :, 0], templates[:, :, -1]):
        assert not edge.any()


@pytest.mark.parametrize("font", FONTS)
def test_no_character_is_missing_from_a_font(font: str) -> None:
    # A font draws the same box for each character that it lacks.
    flat = render(font, CHARACTERS).reshape(62, -1)
    distance = np.abs(flat[:, None] - flat[None]).sum(axis=2) + 1e9 * np.eye(62)
    assert distance.min() > 5.0


@pytest.mark.parametrize("font", FONTS)
def test_characters_are_upright_and_not_mirrored(font: str) -> None:
    letter_l, letter_t, seven, letter_v, letter_a = render(font, "LT7VA")
    assert letter_l[32:].sum() > 1.3 * letter_l[:32].sum()
    assert letter_l[:, :32].sum() > 1.2 * letter_l[:, 32:].sum() or "Obl" in font or "It" in font or font == "cmmi10"
    assert letter_t[:32].sum() > 1.2 * letter_t[32:].sum()
    assert seven[:32].sum() > seven[32:].sum()
    assert _width(letter_v[:20]) > _width(letter_v[44:])
    assert _width(letter_a[44:]) > _width(letter_a[:20])


def _width(rows: NDArray[np.float32]) -> int:
    return int(np.ptp(np.flatnonzero(rows.max(axis=0) > 0.3)))


def test_characters_are_centred() -> None:
    for template in render("DejaVuSans", CHARACTERS):
        for axis in (0, 1):
            inked = np.flatnonzero(template.max(axis=axis) > 0.2)
            assert abs((inked[0] + inked[-1]) / 2 - 31.5) <= 1.5


def test_small_letters_stay_smaller_than_capitals() -> None:
    for small, large in zip(*[iter(render("DejaVuSans", "oOsSvVxXzZ"))] * 2, strict=True):
        assert (small > 0.5).any(axis=1).sum() < (large > 0.5).any(axis=1).sum()


def test_stroke_thickens() -> None:
    assert render("cmr10", CHARACTERS, 3).sum() > 1.3 * render("cmr10", CHARACTERS, 0).sum()


def test_holes_stay_open_in_the_thickest_hand() -> None:
    for font, stroke in FONTS.items():
        for template in render(font, "OD", stroke):
            assert template[28:36, 26:38].min() < 0.3, font


def test_missing_fonts_are_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    glyphs._fonts_dir.cache_clear()
    try:
        with pytest.raises(FileNotFoundError, match="matplotlib"):
            glyphs._fonts_dir()
    finally:
        glyphs._fonts_dir.cache_clear()
