"""What the arrays of kind ``emnist`` mean: characters of 62 classes as images, and how FEMNIST becomes that.

Inputs are uint8 (n, 28, 28), upright, ink 255 on background 0; targets are uint8 (n,), 0 to 61: 0-9, A-Z, a-z.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedcomp.data.dataset import Split
from fedcomp.data.errors import MalformedData

KIND = "emnist"
CLASSES = 62
IMAGE_SHAPE = (28, 28)
NOT_CENTRED = "not centred: accuracies are not those of EMNIST idx files"

_SHOWN = 1000


def counts(train: Split, test: Split) -> str:
    """Return the sizes of both splits, and the number of writers if they are known, in words."""
    text = f"{len(train):,} training and {len(test):,} test characters of {CLASSES} classes"
    writers = len(set(train.clients) | set(test.clients))
    return f"{text} by {writers:,} writers" if writers else text


def check_classes(labels: NDArray[Any], where: object) -> NDArray[np.uint8]:
    """Return labels as uint8.

    Raises
    ------
    MalformedData
        When one is not an integer from 0 to 61.
    """
    if labels.size == 0:
        return np.empty(0, dtype=np.uint8)
    if labels.dtype.kind not in "iu" or labels.ndim != 1 or labels.min() < 0 or labels.max() >= CLASSES:
        wrong = labels.ravel()[0] if labels.dtype.kind not in "iu" else (labels.min(), labels.max())
        raise MalformedData(f"{where}: classes are integers from 0 to {CLASSES - 1}, found {wrong}")
    return labels.astype(np.uint8)


def ink_of(pixels: ArrayLike, where: object) -> NDArray[np.uint8]:
    """Map one or more images with background 1 and strokes 0 to ink 255 on background 0.

    Parameters
    ----------
    pixels
        Numbers from 0 to 1, in rows of 784 or images of shape (28, 28), whole or n of them.
    where
        What the images are from, for the message.

    Returns
    -------
    uint8 of shape (n, 28, 28), n being 1 for a single image.

    Raises
    ------
    MalformedData
        When the shape is another, or a value is not from 0 to 1.
    """
    try:
        values = np.asarray(pixels, dtype=np.float32)
    except (TypeError, ValueError) as error:
        raise MalformedData(f"{where}: an image is not a list of numbers ({error})") from error
    if values.shape[-1:] != (784,) and values.shape[-2:] != IMAGE_SHAPE:
        raise MalformedData(f"{where}: an image of shape {values.shape}, expected 784 values or {IMAGE_SHAPE}")
    if not ((values >= 0) & (values <= 1)).all():
        raise MalformedData(f"{where}: a pixel is not a number from 0 to 1")
    return np.rint(255 * (1 - values)).astype(np.uint8).reshape(-1, *IMAGE_SHAPE)


def check_polarity(split: Split, where: object) -> None:
    """Make sure that images are mostly background, of the first thousand together.

    Raises
    ------
    MalformedData
        When most is ink: the source was not dark strokes on a light background, as all forms of FEMNIST are.
    """
    shown = split.arrays["inputs"][:_SHOWN]
    if len(shown) and shown.mean() > 127:
        raise MalformedData(f"{where}: expected dark strokes on a light background (1.0), found the opposite")
