from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedcomp.compressors.eden_fit import aimed_at, encode_to_fit
from fedcomp.compressors.rates import ONE_BIT

COORDINATES = 100_000
MOST_CALLS = 10


class Encoder:
    """Counts its calls; the body has the length that a function of the shift says."""

    def __init__(self, length: Callable[[int], int]) -> None:
        self.length = length
        self.shifts: list[int] = []

    def __call__(self, shift: int) -> tuple[bytes, bytes]:
        self.shifts.append(shift)
        return shift.to_bytes(8, "little", signed=True), bytes(max(0, self.length(shift)))


def fit(encoder: Encoder, room: int) -> int:
    """Return the length of the body that was chosen, once it is seen to be one of those made."""
    params, body = encode_to_fit(encoder, room=room, coordinates=COORDINATES)
    assert len(encoder.shifts) <= MOST_CALLS
    chosen = int.from_bytes(params, "little", signed=True)
    assert chosen in encoder.shifts
    assert len(body) == max(0, encoder.length(chosen))
    return len(body)


def linear(at_zero: int, slope: float = 1.0) -> Callable[[int], int]:
    return lambda shift: at_zero + int(slope * shift * COORDINATES / (8 * ONE_BIT))


def test_what_fits_well_at_once_is_encoded_once() -> None:
    encoder = Encoder(linear(9960))
    assert fit(encoder, 10_000) == 9960
    assert encoder.shifts == [0]


@pytest.mark.parametrize("error", [-0.03, -0.01, 0.0001, 0.002, 0.01, 0.05])
def test_a_length_as_expected_but_for_some_percent_takes_two(error: float) -> None:
    encoder = Encoder(linear(int(10_000 * (1 + error))))
    assert 9930 <= fit(encoder, 10_000) <= 10_000
    assert len(encoder.shifts) == 2


@given(st.integers(1000, 20_000), st.floats(0.3, 3), st.floats(0.7, 1.3))
def test_smooth_lengths_end_within_a_percent_below(room: int, at_zero: float, slope: float) -> None:
    # Blocks at the highest rate do not grow, so that the length may follow the rates by less than all.
    encoder = Encoder(linear(int(at_zero * room), slope))
    assert 0.99 * room <= fit(encoder, room) <= room
    assert len(encoder.shifts) <= 7


@given(st.integers(0, 20_000), st.lists(st.integers(0, 20_000), min_size=1, max_size=12), st.integers(1, 10_000))
def test_steps_are_survived_and_room_is_kept_where_a_try_keeps_it(room: int, steps: list[int], width: int) -> None:
    lengths = sorted(steps)

    def length(shift: int) -> int:
        return lengths[min(max(shift // width + len(lengths) // 2, 0), len(lengths) - 1)]

    encoder = Encoder(length)
    found = fit(encoder, room)
    if lengths[0] <= room:
        assert found <= room
        assert found == max(length(shift) for shift in encoder.shifts if length(shift) <= room)
    else:
        assert found == lengths[0]


@pytest.mark.parametrize(("constant", "room"), [(500, 400), (500, 500), (500, 100_000), (0, 0), (0, 10), (7, 0)])
def test_a_constant_length_is_returned_whatever_the_room(constant: int, room: int) -> None:
    assert fit(Encoder(lambda _: constant), room) == constant


@given(st.integers(0, 5000), st.lists(st.integers(0, 10_000), min_size=7, max_size=7))
def test_lengths_of_no_order_end_too(room: int, lengths: list[int]) -> None:
    encoder = Encoder(lambda shift: lengths[shift % 7])
    found = fit(encoder, room)
    made = [lengths[shift % 7] for shift in encoder.shifts]
    fitting = [length for length in made if length <= room]
    assert found == (max(fitting) if fitting else min(made))


def test_when_nothing_fits_the_lowest_rate_is_tried() -> None:
    encoder = Encoder(lambda shift: 3000 if shift > -8 * ONE_BIT else 2000)
    assert fit(encoder, 1000) == 2000
    assert encoder.shifts[-1] == -8 * ONE_BIT


def test_no_coordinates_are_no_division_by_zero() -> None:
    assert encode_to_fit(Encoder(lambda _: 8), room=4, coordinates=0)[1] == bytes(8)


@given(st.integers(0, 10**9))
def test_the_aim_is_a_little_below(room: int) -> None:
    assert room - 0.0021 * room - 5 <= aimed_at(room) < room
