from __future__ import annotations

import copy

import pytest
import torch
from torch import nn

from fedcomp.errors import VectorSpecError
from fedcomp.vectors import VectorSpec


class Everything(nn.Module):
    """A model with every kind of entry that a state dict may have."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(5, 4)
        self.norm = nn.BatchNorm1d(4)
        self.low = nn.Linear(4, 4, dtype=torch.bfloat16)
        self.head = nn.Linear(4, 5, bias=False)
        self.head.weight = self.embedding.weight  # tied
        self.scalar = nn.Parameter(torch.tensor(2.5))  # 0-d
        self.register_buffer("empty", torch.zeros(0, 3))
        self.register_buffer("also_empty", torch.zeros(0, 3))
        self.register_buffer("mask", torch.tensor([True, False]))
        self.register_buffer("float64", torch.tensor([1.0, 2.0], dtype=torch.float64))
        self.register_buffer("strided", torch.arange(6.0).reshape(2, 3).t())


def test_every_kind_of_entry_comes_back() -> None:
    model = Everything()
    state = model.state_dict()
    spec = VectorSpec.from_state_dict(state)
    vector, raw = spec.flatten(state), spec.raw(state)
    assert vector.dtype == torch.float32
    assert vector.shape == (spec.dim,) == (5 * 4 + 4 * 4 + 16 + 4 + 1 + 2 + 6,)
    assert set(raw) == {"norm.num_batches_tracked", "mask"}
    back = spec.unflatten(vector, raw)
    assert list(back) == list(state)
    for name, value in state.items():
        assert back[name].dtype == value.dtype
        assert back[name].shape == value.shape
        assert torch.equal(back[name], value)
    assert back["head.weight"] is back["embedding.weight"]
    Everything().load_state_dict(back)


def test_tied_weights_travel_once() -> None:
    spec = VectorSpec.from_state_dict(Everything().state_dict())
    names = [entry.name for entry in spec.floats]
    assert "embedding.weight" in names
    assert "head.weight" not in names
    assert {"empty", "also_empty"} <= set(names)


def test_equal_copies_are_not_tied() -> None:
    one = torch.ones(3)
    spec = VectorSpec.from_state_dict({"a": one, "b": one.clone(), "c": one[:2]})
    assert spec.dim == 8


def test_meta_tensors_are_not_tied() -> None:
    spec = VectorSpec.from_state_dict(nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3)).to("meta").state_dict())
    assert spec.dim == 24


def test_the_vector_is_a_copy() -> None:
    state = {"a": torch.ones(3)}
    spec = VectorSpec.from_state_dict(state)
    vector = spec.flatten(state)
    back = spec.unflatten(vector, {})
    vector.zero_()
    assert state["a"].tolist() == [1, 1, 1]
    assert back["a"].tolist() == [1, 1, 1]


def test_shapes_cover_the_vector() -> None:
    spec = VectorSpec.from_state_dict(Everything().state_dict())
    assert sum(torch.Size(shape).numel() for shape in spec.shapes) == spec.dim


def test_an_empty_state_dict_is_a_vector_of_no_coordinates() -> None:
    spec = VectorSpec.from_state_dict({})
    assert spec.flatten({}).shape == (0,)
    assert spec.unflatten(torch.zeros(0), {}) == {}


def test_fingerprints_tell_layouts_apart() -> None:
    base = {"a": torch.ones(2, 3), "b": torch.ones(1)}
    same = copy.deepcopy(base)
    others = [
        {"a": torch.ones(3, 2), "b": torch.ones(1)},
        {"a": torch.ones(2, 3), "c": torch.ones(1)},
        {"b": torch.ones(1), "a": torch.ones(2, 3)},
        {"a": torch.ones(2, 3), "b": torch.ones(1, dtype=torch.float16)},
    ]
    prints = [VectorSpec.from_state_dict(state).fingerprint for state in (base, *others)]
    assert VectorSpec.from_state_dict(same).fingerprint == prints[0]
    assert len(set(prints)) == 5


@pytest.mark.parametrize(
    ("state", "named"),
    [
        ({"x": torch.ones(2, dtype=torch.complex64)}, r"'x' is a tensor of torch\.complex64"),
        ({"x": torch.eye(2).to_sparse()}, r"torch\.sparse_coo"),
        ({"x": 3}, "'x' is a int"),
    ],
)
def test_what_cannot_be_sent_is_named(state: dict[str, torch.Tensor], named: str) -> None:
    with pytest.raises(VectorSpecError, match=named):
        VectorSpec.from_state_dict(state)


def test_another_layout_is_refused() -> None:
    spec = VectorSpec.from_state_dict({"a": torch.ones(2), "n": torch.tensor(3)})
    with pytest.raises(VectorSpecError, match=r"missing \['n'\], unknown \['z'\]"):
        spec.flatten({"a": torch.ones(2), "z": torch.tensor(3)})
    with pytest.raises(VectorSpecError, match=r"'a' is torch.float32 of shape \(3,\)"):
        spec.flatten({"a": torch.ones(3), "n": torch.tensor(3)})
    with pytest.raises(VectorSpecError, match=r"this layout needs \(2,\)"):
        spec.unflatten(torch.ones(3), {"n": torch.tensor(3)})
    with pytest.raises(VectorSpecError, match="raw tensor 'n' is missing"):
        spec.unflatten(torch.ones(2), {})
    with pytest.raises(VectorSpecError, match=r"'n' is torch\.int32"):
        spec.unflatten(torch.ones(2), {"n": torch.tensor(3, dtype=torch.int32)})
