from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

MEMORY = """
import logging, sys, torch, numpy as np
from flwr.app import Array, ArrayRecord, Message, MetricRecord, RecordDict
from flwr.serverapp.strategy import FedAvg, FedAdam
import fedcomp
from fedcomp.bench.peak import peak_bytes
from fedcomp.flower import CompressedGrid
from fedcomp.flower.instructions import Instructions
from fedcomp.flower.update import EncodedArrays
from tests.support.in_process_grid import InProcessGrid
from tests.support.flower_app import identify

torch.set_num_threads(1)
logging.disable()
identify()
DIM = 2**20
step = np.random.default_rng(1).standard_normal(DIM, dtype=np.float32)

class Answering(InProcessGrid):
    # A reply is made when it is pulled, as it would then come from elsewhere.
    def push_messages(self, messages):
        for number, message in enumerate(messages):
            message.metadata.__dict__["_message_id"] = str(number)
            self._replies[str(number)] = message
        return list(self._replies)

    def pull_messages(self, identifiers):
        for identifier in identifiers:
            message = self._replies.pop(identifier)
            told = Instructions.taken_from(message.content)
            payload = fedcomp.compressor(told.compressor).encode(step, seed=told.seed)
            metrics = MetricRecord({"num-examples": 2, "loss": 1.0})
            content = RecordDict({"arrays": EncodedArrays(payload, b"").to_record(), "metrics": metrics})
            yield Message(content, reply_to=message)

def run(clients):
    strategy = make(fraction_evaluate=0.0)
    grid = CompressedGrid(Answering(None, dict.fromkeys(range(clients)), {}), "sign", strategy=strategy, stream=stream)
    strategy.start(grid=grid, initial_arrays=ArrayRecord({"w": Array(np.zeros(DIM, np.float32))}), num_rounds=1)
    assert [item.accepted for item in grid.rounds] == [clients]

make = {"FedAvg": FedAvg, "FedAdam": FedAdam}[sys.argv[1]]
stream = {"None": None, "False": False}[sys.argv[2]]
few, many = map(int, sys.argv[3:])
run(2)
peaks = [peak_bytes(lambda: run(clients), torch.device("cpu")) / (4 * DIM) for clients in (few, many)]
print(*peaks)
"""


def peaks(*arguments: str) -> tuple[float, float]:
    """Return the server's peak memory with few and with many clients, in models."""
    root = Path(__file__).resolve().parents[3]
    command = [sys.executable, "-c", MEMORY, *arguments]
    shown = subprocess.run(command, capture_output=True, text=True, check=False, cwd=root)
    assert shown.returncode == 0, shown.stderr
    few, many = map(float, shown.stdout.split())
    return few, many


@pytest.mark.parametrize("strategy", ["FedAvg", "FedAdam"])
def test_a_hundred_clients_take_no_more_memory_than_ten(strategy: str) -> None:
    few, many = peaks(strategy, "None", "10", "100")
    assert many < few + 1


def test_this_measurement_sees_memory_that_grows() -> None:
    few, many = peaks("FedAvg", "False", "2", "12")
    assert many > few + 8
