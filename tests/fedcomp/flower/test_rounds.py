from __future__ import annotations

from fedcomp.flower.rounds import CompressedRound, Rejection


def test_bits_are_those_of_all_payloads_that_came() -> None:
    item = CompressedRound(2, "eden:bits=1", 1000, True, 2, (Rejection(1, 7, "late"),), 3, 390, 1234)
    assert item.bits_per_coordinate == 8 * 390 / 3000
    assert str(item) == (
        "round 2: 2 of 3 updates used, eden:bits=1, 1.0400 bits per coordinate, 390 bytes of payload + 1,234 of "
        "envelope up, mean formed while replies came"
    )


def test_without_payloads_or_coordinates_there_is_no_rate() -> None:
    nothing = CompressedRound(1, "sign", 1000, False, 0, (), 0, 0, 0)
    assert nothing.bits_per_coordinate is None
    assert "sign, no payload, 0 bytes" in str(nothing)
    assert str(nothing).endswith("all replies decoded")
    assert CompressedRound(1, "sign", 0, False, 1, (), 1, 32, 0).bits_per_coordinate is None
