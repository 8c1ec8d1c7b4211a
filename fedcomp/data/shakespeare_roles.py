"""Texts by owner as a data set: what each owner says first is for training, the last fifth for the test."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate

import numpy as np

from fedcomp.data.dataset import Dataset, Split
from fedcomp.data.snippets import cut

KIND = "shakespeare"


def speeches_by_owner(speeches: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    """Map (owner, speech) pairs to each owner's speeches in their order.

    Names that differ in case only are one owner, under the first spelling: "All" and "ALL" are.
    """
    owners: dict[str, tuple[str, list[str]]] = {}
    for owner, speech in speeches:
        owners.setdefault(owner.casefold(), (owner, []))[1].append(speech)
    return dict(owners.values())


def dataset_of_roles(roles: Mapping[str, Sequence[str]], *, source: str, what: str) -> Dataset:
    """Make a data set of each owner's speeches in their order, held out by :func:`held_out`; owners are sorted by name.

    ``what`` begins the label: which texts these are, and who the owners.
    """
    names = sorted(roles)
    cuts = [held_out([len(speech) for speech in roles[name]]) for name in names]
    train = split_of_snippets(names, (roles[name][:end] for name, end in zip(names, cuts, strict=True)))
    test = split_of_snippets(names, (roles[name][end:] for name, end in zip(names, cuts, strict=True)))
    rule = "the last fifth of each owner's text is the test set"
    return Dataset(KIND, label_of(what, train, test, rule), source, train, test)


def held_out(lengths: Sequence[int]) -> int:
    """Return where the test speeches of one owner begin, given all speeches' lengths in characters.

    Speeches that begin in the last fifth of the owner's characters are test, of two or more at least the last one. An
    owner of one speech has it for training.
    """
    if len(lengths) < 2:
        return len(lengths)
    total = sum(lengths)
    starts = [end - length for end, length in zip(accumulate(lengths), lengths, strict=True)]
    # The first speech is for training even where all are empty.
    return next((k for k in range(1, len(lengths)) if 5 * starts[k] >= 4 * total), len(lengths) - 1)


def split_of_snippets(names: Sequence[str], snippets: Iterable[Iterable[str]]) -> Split:
    """Return the windows of each owner's snippets as a split; owners as in ``names``, some perhaps without any."""
    parts = [cut(texts) for texts in snippets]
    empty = cut([])
    arrays = {
        "inputs": np.concatenate([empty.inputs, *(part.inputs for part in parts)]),
        "targets": np.concatenate([empty.targets, *(part.targets for part in parts)]),
    }
    ends = np.cumsum([0, *(len(part.inputs) for part in parts)], dtype=np.int64)
    return Split(arrays, tuple(names), ends if names else ends[:0])


def label_of(what: str, train: Split, test: Split, rule: str) -> str:
    """Return a data set's label: what it is, how much of it, how the test set was chosen."""
    owners = len(set(train.clients) | set(test.clients))
    return f"{what}: {owners:,} owners, {len(train):,} training and {len(test):,} test windows of 80 characters; {rule}"
