from __future__ import annotations

import gzip
import lzma
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from fedcomp.data import idx
from fedcomp.data.errors import DamagedData, DataError, MalformedData, MissingData, TruncatedData
from fedcomp.data.idx import idx_blocks
from tests.support.femnist_forms import idx_bytes

ROWS = np.arange(7 * 2 * 3, dtype=np.uint8).reshape(7, 2, 3)
PACK: dict[str, Callable[[bytes], bytes]] = {"plain": bytes, "gz": gzip.compress, "xz": lzma.compress}


def read(path: Path, row_shape: tuple[int, ...] = (2, 3)) -> np.ndarray[tuple[int, ...], np.dtype[np.uint8]]:
    return np.concatenate(list(idx_blocks(path, row_shape=row_shape)))


@pytest.mark.parametrize("pack", PACK)
@pytest.mark.parametrize("block", [1, 3, 7, 100])
def test_reads_rows_in_blocks(tmp_path: Path, pack: str, block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(idx, "_BLOCK", block)
    path = tmp_path / "rows"  # the content decides, not the name
    path.write_bytes(PACK[pack](idx_bytes(ROWS)))
    assert np.array_equal(read(path), ROWS)
    path.write_bytes(PACK[pack](idx_bytes(ROWS[:, 0, 0].copy())))
    assert np.array_equal(read(path, ()), ROWS[:, 0, 0])


@pytest.mark.parametrize("pack", PACK)
def test_every_truncation_is_seen(tmp_path: Path, pack: str) -> None:
    path = tmp_path / "rows"
    whole = PACK[pack](idx_bytes(ROWS))
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        with pytest.raises(DataError, match=str(path)) as caught:
            read(path)
        # Of less than a compressed file's first bytes nobody can say what it was.
        assert isinstance(caught.value, TruncatedData) or length < 6


@pytest.mark.parametrize("pack", ["gz", "xz"])
def test_changed_bytes_of_a_compressed_file_are_seen(tmp_path: Path, pack: str) -> None:
    path = tmp_path / "rows"
    whole = PACK[pack](idx_bytes(ROWS))
    for at in range(len(whole)):
        changed = bytearray(whole)
        changed[at] ^= 0x10
        path.write_bytes(changed)
        try:
            assert np.array_equal(read(path), ROWS), "other rows than were written"  # a name or time in gzip's header
        except DataError as error:
            assert str(path) in str(error)  # noqa: PT017


def test_a_wrong_checksum_is_named(tmp_path: Path) -> None:
    path = tmp_path / "rows.gz"
    content = bytearray(gzip.compress(idx_bytes(ROWS)))
    content[-8] ^= 1  # the CRC
    path.write_bytes(content)
    with pytest.raises(DamagedData, match=r"rows.gz is damaged \(CRC check failed.*get it again"):
        read(path)


def test_errors_say_what_was_expected(tmp_path: Path) -> None:
    path = tmp_path / "rows"
    with pytest.raises(MissingData, match="rows is not there"):
        read(path)
    path.write_bytes(idx_bytes(ROWS)[:-1])
    with pytest.raises(TruncatedData, match=r"ends after 41 bytes of data, expected 42 \(7 rows\)"):
        read(path)
    path.write_bytes(idx_bytes(ROWS) + b"x")
    with pytest.raises(MalformedData, match="goes on after its 7 rows"):
        read(path)
    path.write_bytes(b"PK\x03\x04" + bytes(100))
    with pytest.raises(MalformedData, match="begins with 504b0304, expected 00000803"):
        read(path)
    path.write_bytes(idx_bytes(ROWS))
    with pytest.raises(MalformedData, match=r"rows of shape \(2, 3\), expected \(28, 28\)"):
        read(path, (28, 28))
