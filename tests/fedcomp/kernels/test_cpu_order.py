from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from fedcomp.kernels.cpu_order import order_by_falling_class

ZERO = -(2**14)


@given(
    st.lists(st.integers(-(2**15), 2**15 - 1) | st.integers(-2, 2) | st.just(ZERO), max_size=200),
    st.integers(-50, 50) | st.integers(-(2**15), 2**15 - 1),
)
def test_it_is_the_order_of_a_stable_sort(classes: list[int], floor: int) -> None:
    array = np.array(classes, dtype=np.int16)
    expected = sorted(
        (place for place, value in enumerate(classes) if value != ZERO), key=lambda place: -max(classes[place], floor)
    )
    assert order_by_falling_class(array, floor, ZERO).tolist() == expected
