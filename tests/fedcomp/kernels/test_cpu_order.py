from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from fedcomp.kernels.cpu_order import stable_order


@given(st.lists(st.integers(-(2**15), 2**15 - 1) | st.integers(-2, 2), max_size=200))
def test_it_is_the_order_of_a_stable_sort(keys: list[int]) -> None:
    array = np.array(keys, dtype=np.int16)
    assert stable_order(array).tolist() == np.argsort(array, kind="stable").tolist()
