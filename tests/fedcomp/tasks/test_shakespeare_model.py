from __future__ import annotations

import copy
import math

import pytest
import torch
from torch import nn

from fedcomp.tasks.shakespeare_model import CharacterLstm, OneBiasLstm

GENERATOR = torch.Generator().manual_seed(3)
TOKENS = torch.randint(1, 90, (3, 80), generator=GENERATOR)


def test_has_the_published_number_of_parameters() -> None:
    sizes = {name: tuple(parameter.shape) for name, parameter in CharacterLstm(seed=1).named_parameters()}
    assert sizes == {
        "embedding.weight": (90, 8),
        "lstm.weight_ih_l0": (1024, 8),
        "lstm.weight_hh_l0": (1024, 256),
        "lstm.bias_ih_l0": (1024,),
        "lstm.weight_ih_l1": (1024, 256),
        "lstm.weight_hh_l1": (1024, 256),
        "lstm.bias_ih_l1": (1024,),
        "dense.weight": (90, 256),
        "dense.bias": (90,),
    }
    assert sum(math.prod(shape) for shape in sizes.values()) == 820_522


def test_what_is_sent_is_what_is_trained() -> None:
    model = CharacterLstm(seed=1)
    assert list(model.state_dict()) == [name for name, _ in model.named_parameters()]


@pytest.mark.parametrize("n", [1, 5])
def test_maps_tokens_to_logits(n: int) -> None:
    logits = CharacterLstm(seed=1)(torch.ones(n, 80, dtype=torch.int64))
    assert logits.shape == (n, 80, 90)
    assert logits.abs().max() < 1


def twin(lstm: OneBiasLstm) -> nn.LSTM:
    """Return torch's own LSTM with the same weights and zeros where it has a second bias."""
    other = nn.LSTM(lstm.input_size, lstm.hidden_size, num_layers=lstm.num_layers, batch_first=True)
    zeros = {f"bias_hh_l{layer}": torch.zeros(4 * lstm.hidden_size) for layer in range(lstm.num_layers)}
    other.load_state_dict({**lstm.state_dict(), **zeros})
    return other


@pytest.mark.parametrize("layers", [1, 2])
def test_computes_what_torch_does_with_a_second_bias_of_zero(layers: int) -> None:
    lstm = OneBiasLstm(8, 16, num_layers=layers)
    inputs = torch.randn(2, 5, 8, generator=torch.Generator().manual_seed(1))
    expected = twin(lstm)(inputs)[0]
    for same in (lstm, copy.deepcopy(lstm), copy.deepcopy(lstm).double().float()):
        assert torch.equal(same(inputs)[0], expected)
    lstm.load_state_dict({name: value + 0.1 for name, value in lstm.state_dict().items()})
    assert torch.equal(lstm(inputs)[0], twin(lstm)(inputs)[0])


def test_training_moves_every_parameter_and_no_second_bias() -> None:
    model = CharacterLstm(seed=1, width=16)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    model(TOKENS).square().sum().backward()
    optimizer.step()
    assert all(not torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert not any(buffer.any() for buffer in model.buffers())
    inputs = torch.randn(2, 5, 8, generator=torch.Generator().manual_seed(1))
    assert torch.equal(model.lstm(inputs)[0], twin(model.lstm)(inputs)[0])


def test_weights_are_drawn_as_keras_does() -> None:
    weights = CharacterLstm(seed=3).state_dict()
    embedding = weights["embedding.weight"]
    assert not embedding[0].any()
    assert 0.049 < embedding.abs().max() <= 0.05
    assert embedding[1:].std().item() == pytest.approx(0.1 / math.sqrt(12), rel=0.1)
    for layer, fan_in in ((0, 8), (1, 256)):
        kernel = weights[f"lstm.weight_ih_l{layer}"]
        spread = math.sqrt(2 / fan_in)
        assert abs(kernel.std().item() / spread - 1) < 4 / math.sqrt(2 * kernel.numel())
        # Cut at two standard deviations of the normal distribution it is cut from.
        assert 1.9 * spread / 0.8797 < kernel.abs().max() <= 2 * spread / 0.8796
        recurrent = weights[f"lstm.weight_hh_l{layer}"]
        torch.testing.assert_close(recurrent.T @ recurrent, torch.eye(256), atol=1e-5, rtol=0)
        bias = weights[f"lstm.bias_ih_l{layer}"].view(4, 256)
        assert torch.equal(bias, torch.tensor([0.0, 1, 0, 0])[:, None].expand(4, 256))
    dense = weights["dense.weight"]
    limit = math.sqrt(6 / (256 + 90))
    assert 0.99 * limit < dense.abs().max() <= limit
    assert not weights["dense.bias"].any()


def test_the_second_block_of_a_bias_is_the_forget_gate() -> None:
    # An open forget gate keeps the cell, a closed one drops it.
    lstm = OneBiasLstm(1, 1, num_layers=1)
    inputs, state = torch.zeros(1, 1, 1), (torch.zeros(1, 1, 1), torch.ones(1, 1, 1))
    cells = []
    for forget in (50.0, -50.0):
        bias = torch.tensor([-50.0, forget, 0, 0])
        lstm.load_state_dict({**{k: torch.zeros_like(v) for k, v in lstm.state_dict().items()}, "bias_ih_l0": bias})
        cells.append(round(lstm(inputs, state)[1][1].item(), 6))
    assert cells == [1.0, 0.0]


def test_seed_decides_the_weights() -> None:
    def weights(seed: int) -> torch.Tensor:
        return nn.utils.parameters_to_vector(CharacterLstm(seed=seed).parameters())

    assert torch.equal(weights(1), weights(1))
    assert not torch.equal(weights(1), weights(2))


def test_global_randomness_is_untouched() -> None:
    before = torch.get_rng_state()
    CharacterLstm(seed=1)
    assert torch.equal(torch.get_rng_state(), before)


def test_padding_changes_nothing_before_it_and_is_not_trained() -> None:
    model = CharacterLstm(seed=1, width=16)
    padded = TOKENS.clone()
    padded[:, 50:] = 0
    torch.testing.assert_close(model(padded)[:, :50], model(TOKENS)[:, :50])
    model(padded).sum().backward()
    assert model.embedding.weight.grad is not None
    assert not model.embedding.weight.grad[0].any()


def test_sixteen_bits_work_on_any_cpu() -> None:
    model = CharacterLstm(seed=1, width=16)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        outputs = model(TOKENS)
    assert outputs.dtype == torch.bfloat16
    torch.testing.assert_close(outputs.float(), model(TOKENS), atol=0.02, rtol=0)
    outputs.sum().backward()


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU here")
def test_on_a_gpu_it_computes_the_same_without_a_warning() -> None:
    # cuDNN warns, an error here, where weights are not one piece of memory.
    model = CharacterLstm(seed=1)
    expected = model(TOKENS)
    torch.testing.assert_close(model.cuda()(TOKENS.cuda()).cpu(), expected, atol=1e-3, rtol=1e-3)


@pytest.mark.slow
@pytest.mark.parametrize("batch", [4, 10])
def test_is_as_fast_as_an_lstm_with_two_biases(batch: int) -> None:
    import time

    torch.set_num_threads(1)
    ours = OneBiasLstm(8, 256, num_layers=2)
    inputs = torch.randn(batch, 80, 8, generator=torch.Generator().manual_seed(1))
    times: dict[int, list[float]] = {0: [], 1: []}
    for _ in range(15):
        for which, lstm in enumerate((ours, twin(ours))):
            start = time.perf_counter()
            lstm(inputs)[0].sum().backward()
            times[which].append(time.perf_counter() - start)
    assert min(times[0]) < 1.25 * min(times[1])  # within 3 % when nothing else runs
