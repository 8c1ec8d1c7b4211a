from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from numpy.typing import NDArray

from fedcomp.tasks import writers
from fedcomp.tasks.glyphs import render_templates
from fedcomp.tasks.writers import stream, write


def test_same_arguments_give_the_same_bytes() -> None:
    np.random.seed(0)  # the global state must not matter
    images, labels = write("train-3", 70, seed=5, alpha=0.5)
    write("train-4", 10, seed=5, alpha=0.5)
    again, labels_again = write("train-3", 70, seed=5, alpha=0.5)
    assert images.tobytes() == again.tobytes()
    assert labels.tobytes() == labels_again.tobytes()


def test_another_process_gives_the_same_bytes() -> None:
    code = (
        "import sys\nfrom fedcomp.tasks.writers import write\n"
        "for array in write('train-3', 70, seed=5, alpha=0.5): sys.stdout.buffer.write(array.tobytes())"
    )
    output = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, check=True, timeout=60).stdout
    assert output == b"".join(array.tobytes() for array in write("train-3", 70, seed=5, alpha=0.5))


@pytest.mark.parametrize(("writer", "seed"), [("train-3", 6), ("train-4", 5), ("test-3", 5)])
def test_another_seed_or_writer_gives_other_characters(writer: str, seed: int) -> None:
    images, labels = write("train-3", 70, seed=5, alpha=0.5)
    others, other_labels = write(writer, 70, seed=seed, alpha=0.5)
    assert not np.array_equal(labels, other_labels)
    assert not np.array_equal(images, others)


def test_seed_and_writer_do_not_run_into_each_other() -> None:
    assert stream(1, "1/x").integers(1 << 60) != stream(11, "x").integers(1 << 60)


@pytest.mark.parametrize("examples", [0, 1, 2, 63])
@pytest.mark.parametrize("alpha", [None, 1e-3, 0.5, 1e6])
def test_images_are_ink_on_background_zero(examples: int, alpha: float | None) -> None:
    images, labels = write("w", examples, seed=1, alpha=alpha)
    assert images.shape == (examples, 28, 28)
    assert images.dtype == np.uint8
    assert labels.shape == (examples,)
    assert labels.dtype == np.int64
    assert ((labels >= 0) & (labels < 62)).all()
    for image in images:
        assert image.max() > 150
        assert (image == 0).mean() > 0.25
        assert (image > 0).mean() > 0.03


def test_characters_stay_upright_and_in_place() -> None:
    parts = [write(f"w{k}", 62, seed=1, alpha=None) for k in range(30)]
    images, labels = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
    means = np.stack([images[labels == k].mean(axis=0) for k in range(62)])
    inner = render_templates("DejaVuSans", range(62), stroke=2)[:, 4:-4, 4:-4]
    templates = inner.reshape(62, 28, 2, 28, 2).mean((2, 4))

    def likeness(other: NDArray[np.float32]) -> float:
        return float(np.mean([np.corrcoef(a.ravel(), b.ravel())[0, 1] for a, b in zip(means, other, strict=True)]))

    upright = likeness(templates)
    assert upright > 0.5
    for turned in (templates[:, ::-1], templates[:, :, ::-1], templates.transpose(0, 2, 1), templates[:, ::-1, ::-1]):
        assert likeness(turned) < upright - 0.1
    assert means[:, :2, :2].mean() < 2
    assert means[:, -2:, -2:].mean() < 2


def test_without_alpha_every_class_is_equally_frequent_up_to_one() -> None:
    _, labels = write("w", 150, seed=1, alpha=None)
    counts = np.bincount(labels, minlength=62)
    assert counts.min() == 2
    assert counts.max() == 3


def test_alpha_sets_how_skewed_a_writers_classes_are() -> None:
    def skew(alpha: float) -> float:
        # Labels alone: what write() draws them with, without the time to render them.
        labels = [writers._draw_labels(stream(1, f"w{k}"), 300, alpha) for k in range(100)]
        shares = [np.bincount(drawn, minlength=62) / 300 for drawn in labels]
        return float(np.mean([(share**2).sum() for share in shares]))

    # E[sum of squared shares] is (alpha + 1) / (62 alpha + 1), and the finite sample adds about 1/300.
    for alpha in (0.1, 0.5, 5.0):
        assert skew(alpha) == pytest.approx((alpha + 1) / (62 * alpha + 1) + 1 / 300, rel=0.1)


def test_a_writer_has_a_hand_of_its_own() -> None:
    def means(writer: str) -> NDArray[np.float64]:
        images, labels = write(writer, 62 * 8, seed=1, alpha=None)
        return np.stack([images[labels == k].mean(axis=0) for k in range(62)])

    between = np.abs(means("a") - means("b")).mean()
    images, labels = write("a", 62 * 8, seed=1, alpha=None)
    halves = [np.stack([images[labels == k][part].mean(axis=0) for k in range(62)]) for part in (slice(4), slice(4, 8))]
    within = np.abs(halves[0] - halves[1]).mean()
    assert between > 1.5 * within


def test_each_sample_differs_from_the_next() -> None:
    images, labels = write("a", 62 * 4, seed=1, alpha=None)
    same = images[labels == 10].astype(float)
    assert all(np.abs(same[i] - same[j]).mean() > 2 for i in range(4) for j in range(i))


def test_labels_fit_the_images_of_other_writers() -> None:
    def pool(kind: str, count: int) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
        parts = [write(f"{kind}-{k}", 62, seed=1, alpha=None) for k in range(count)]
        images, labels = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
        return images.reshape(len(images), -1) / 255.0, labels

    inputs, labels = pool("train", 40)
    centroids = np.stack([inputs[labels == k].mean(axis=0) for k in range(62)])
    tests, test_labels = pool("test", 10)
    distances = ((tests[:, None] - centroids[None]) ** 2).sum(axis=2)
    accuracy = (distances.argmin(axis=1) == test_labels).mean()
    assert 0.3 < accuracy < 0.75  # far above chance, .016; and not an easy toy either


def test_samples_are_bent_not_only_moved(monkeypatch: pytest.MonkeyPatch) -> None:
    images, _ = write("a", 62, seed=1, alpha=None)
    monkeypatch.setattr(writers, "_SAMPLE_FIELD", 0.0)
    stiff, _ = write("a", 62, seed=1, alpha=None)
    assert np.abs(images.astype(float) - stiff).mean() > 3
