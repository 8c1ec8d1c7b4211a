from __future__ import annotations

import pytest

from tests.support.peak_process import printed_peak

MEMORY = """
import gc, logging, sys, torch, numpy as np
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
run(2)
gc.collect()
print(peak_bytes(lambda: run(int(sys.argv[3])), torch.device("cpu")) / (4 * DIM))
"""


def peak(strategy: str, stream: str, clients: int) -> float:
    """Return the server's peak memory in models."""
    return printed_peak(MEMORY, strategy, stream, str(clients))


@pytest.mark.parametrize("strategy", ["FedAvg", "FedAdam"])
def test_a_hundred_clients_take_no_more_memory_than_ten(strategy: str) -> None:
    assert peak(strategy, "None", 100) < peak(strategy, "None", 10) + 1


def test_this_measurement_sees_memory_that_grows() -> None:
    assert peak("FedAvg", "False", 12) > peak("FedAvg", "False", 2) + 8
