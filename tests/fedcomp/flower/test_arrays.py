from __future__ import annotations

import re

import numpy as np
import pytest
import torch
from flwr.app import Array
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays_of

from fedcomp.errors import DimMismatch, InvalidParams, NonFinite, VectorSpecError
from fedcomp.flower.arrays import ArraysMismatch, difference, layout_of, moved, read_raw
from tests.support.flower_app import KINDS, Values, model, record, values

DTYPES = ["float16", "float32", "float64", "bool", "int8", "int64", "uint8", "uint64"]


def one(value: object, dtype: str) -> Array:
    return Array(np.asarray(value, dtype=dtype))


@given(st.data())
def test_what_travels_gives_back_what_the_app_replied(data: st.DataObject) -> None:
    received: dict[str, Values] = {}
    trained: dict[str, Values] = {}
    for name in data.draw(st.lists(st.sampled_from("abcd"), unique=True)):
        dtype = np.dtype(data.draw(st.sampled_from(DTYPES)))
        shape = data.draw(arrays_of.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4))
        elements = st.floats(-100, 100, width=16) if dtype.kind == "f" else arrays_of.from_dtype(dtype)
        received[name] = data.draw(arrays_of.arrays(dtype, shape, elements=elements))
        trained[name] = np.array(data.draw(arrays_of.arrays(dtype, shape, elements=elements)), order="F")
    before, after = record(received), record(dict(reversed(trained.items())))
    layout = layout_of(before, {})
    vector, raw = difference(layout, before, after)
    assert vector.shape == (layout.dim,)
    assert vector.dtype == torch.float32
    decoded = values(moved(layout, before, vector, read_raw(layout, raw)))
    assert list(decoded) == list(received)
    for name, expected in trained.items():
        assert (decoded[name].shape, decoded[name].dtype) == (expected.shape, expected.dtype)
        # A difference of numbers below 100, rounded to float32 and added in float32 again.
        exact = expected.dtype.kind != "f"
        np.testing.assert_allclose(decoded[name], expected, rtol=0, atol=0 if exact else 2e-5)


def test_a_float16_difference_is_not_rounded_to_float16() -> None:
    before, after = {"x": one(1000.0, "float16")}, {"x": one(0.1, "float16")}
    vector, _ = difference(layout_of(before, {}), before, after)
    assert float(vector[0]) == np.float32(np.float16(0.1)) - 1000


def test_a_small_step_of_a_large_float64_survives() -> None:
    before, after = {"x": one(2.0**40, "float64")}, {"x": one(2.0**40 + 0.5, "float64")}
    layout = layout_of(before, {})
    vector, raw = difference(layout, before, after)
    assert float(vector[0]) == 0.5
    assert moved(layout, before, vector, read_raw(layout, raw))["x"].numpy() == 2.0**40 + 0.5


def test_dtypes_are_those_asked_for_whatever_is_sent_and_replied() -> None:
    # After a round of FedAdam the server sends float64, after one of FedAvg float64 means of integers.
    sent = {"w": one([1.5, 2.5], "float64"), "steps": one(7.25, "float64"), "mask": one([0.4, 1.0], "float64")}
    replied = {"w": one([2.0, 2.0], "float32"), "steps": one(9, "int64"), "mask": one([True, False], "bool")}
    layout = layout_of(sent, {"w": "float32", "steps": "int64", "mask": "bool"})
    vector, raw = difference(layout, sent, replied)
    decoded = values(moved(layout, sent, vector, read_raw(layout, raw)))
    assert [str(item.dtype) for item in decoded.values()] == ["float32", "int64", "bool"]
    assert all(np.array_equal(decoded[name], replied[name].numpy()) for name in sent)
    # An app that works on plain numpy arrays hands the means back as floats.
    _, again = difference(layout, sent, {**replied, "steps": one(9.4, "float64"), "mask": one([0.6, 0.4], "float64")})
    assert values(moved(layout, sent, vector, read_raw(layout, again)))["steps"] == 9
    assert again == raw


@pytest.mark.parametrize("value", [300.0, -1.0, np.nan, np.inf])
def test_integers_that_do_not_fit_are_refused(value: float) -> None:
    sent = {"n": one(3, "uint8")}
    with pytest.raises(ArraysMismatch, match="array 'n' of the app's reply is float64 with values that uint8"):
        difference(layout_of(sent, {}), sent, {"n": one(value, "float64")})


def test_means_of_integers_stay_floats() -> None:
    sent = {"n": one(3, "int64")}
    mean = moved(layout_of(sent, {}), sent, torch.zeros(0), {"n": np.asarray(2.5)}, whole=False)
    assert mean["n"].numpy() == 2.5


@pytest.mark.parametrize(("lacks", "adds"), [(["bias"], ["extra"]), (["bias"], []), ([], ["extra"])])
def test_other_names_are_refused_by_name(lacks: list[str], adds: list[str]) -> None:
    sent = record(model(KINDS, 1))
    reply = record({**model(KINDS, 2), **{name: np.zeros(2) for name in adds}})
    for name in lacks:
        del reply[name]
    with pytest.raises(ArraysMismatch, match=re.escape(f"lacks arrays {lacks} and adds {adds}")):
        difference(layout_of(sent, {}), sent, reply)


@pytest.mark.parametrize("shape", [(24, 1), (1, 24), (23,), ()])
def test_other_shapes_are_refused_even_if_they_broadcast(shape: tuple[int, ...]) -> None:
    sent = record(model(KINDS, 1))
    reply = record({**model(KINDS, 2), "bias": np.zeros(shape, np.float32)})
    with pytest.raises(ArraysMismatch, match=r"'bias' of the app's reply has shape .*, the received one \(24,\)"):
        difference(layout_of(sent, {}), sent, reply)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 1e300])
def test_an_update_that_is_not_finite_is_refused_by_name(value: float) -> None:
    sent = {"a": one([1.0], "float64"), "b": one([1.0, 2.0], "float64")}
    with pytest.raises(NonFinite, match="the update of array 'b'"):
        difference(layout_of(sent, {}), sent, {**sent, "b": one([1.0, value], "float64")})


def test_an_infinity_that_stays_is_no_change() -> None:
    sent = {"mask": one([0.0, -np.inf, 1.0], "float32")}
    layout = layout_of(sent, {})
    vector, raw = difference(layout, sent, {"mask": one([0.5, -np.inf, 1.0], "float32")})
    assert vector.tolist() == [0.5, 0.0, 0.0]
    decoded = moved(layout, sent, torch.tensor([0.5, 0.1, -0.1]), read_raw(layout, raw))["mask"].numpy()
    assert decoded.tolist() == [0.5, -np.inf, np.float32(0.9)]


def test_a_sum_beyond_the_dtype_is_refused_by_name() -> None:
    sent = {"a": one([1.0], "float32"), "half": one([60000.0], "float16")}
    layout = layout_of(sent, {})
    assert moved(layout, sent, torch.tensor([1.0, 100.0]), {})["half"].numpy() == 60096
    with pytest.raises(NonFinite, match="array 'half' left the range of float16"):
        moved(layout, sent, torch.tensor([1.0, 60000.0]), {})


@pytest.mark.parametrize("change", [-1, 1, -15])
def test_raw_bytes_of_another_length_are_refused(change: int) -> None:
    layout = layout_of(record(model(KINDS, 1)), {})
    with pytest.raises(DimMismatch, match=f"have {15 + change} bytes, this model has 15"):
        read_raw(layout, bytes(15 + change))


def test_a_bool_of_two_is_refused() -> None:
    layout = layout_of({"m": one([True, False], "bool"), "n": one([1], "uint8")}, {})
    assert read_raw(layout, b"\x01\x00\x07")["m"].tolist() == [True, False]
    with pytest.raises(InvalidParams, match="bool array 'm'"):
        read_raw(layout, b"\x01\x02\x07")


def test_raw_bytes_are_little_endian() -> None:
    sent = {"n": one([1, 258], "int32")}
    for replied in (sent, {"n": Array(np.array([1, 258], ">i4"))}):
        assert difference(layout_of(sent, {}), sent, replied)[1] == bytes([1, 0, 0, 0, 2, 1, 0, 0])


@pytest.mark.parametrize(
    "array",
    [
        one([1j], "complex64"),
        Array(np.array(["a"])),
        Array(dtype="bfloat16", shape=(1,), stype="numpy.ndarray", data=b""),
        Array(dtype="uint8", shape=(3,), stype="fedcomp.payload", data=b"abc"),
    ],
)
def test_other_arrays_cannot_be_laid_out(array: Array) -> None:
    with pytest.raises(VectorSpecError, match=r"array 'x' is .*; allowed: float16"):
        layout_of({"x": array}, {})


def test_a_reply_that_is_no_numpy_array_is_refused() -> None:
    sent = {"x": one([1.0], "float32")}
    for reply in (Array(dtype="float32", shape=(1,), stype="numpy.ndarray", data=b"nonsense"), one([1j], "complex64")):
        with pytest.raises(ArraysMismatch, match="array 'x'"):
            difference(layout_of(sent, {}), sent, {"x": reply})
