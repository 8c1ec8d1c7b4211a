"""The server app's memory does not grow with its clients."""

from __future__ import annotations

from tests.support.peak_process import printed_peak

MEMORY = """
import gc, logging, os, sys, tempfile, torch
from flwr.app import Context, Message, RecordDict

os.environ["FEDCOMP_HOME"] = tempfile.mkdtemp()
import fedcomp
from fedcomp.bench.peak import peak_bytes
from fedcomp.flower.messages import ClientDescription, TrainReply, TrainRequest
from server_app.app import main
from tests.support.in_process_grid import InProcessGrid
from tests.support.runs import identify, settings

torch.set_num_threads(1)
identify()
WIDTH = 100_000
DIM = 11 * WIDTH + 2
step = torch.randn(DIM) * 1e-3

class Answering(InProcessGrid):
    # A reply is made when it is pulled, as it would then come from elsewhere.
    def push_messages(self, messages):
        for message in messages:
            message.metadata.__dict__["_message_id"] = str(len(self.pushed))
            self.pushed.append(None)
            self._replies[message.metadata.message_id] = message
            yield message.metadata.message_id

    def pull_messages(self, identifiers):
        for identifier in identifiers:
            message = self._replies.pop(identifier)
            node = message.metadata.dst_node_id
            if "parts" in message.content:
                asked = TrainRequest.from_record(message.content)
                payload = fedcomp.compressor(asked.compressor).encode(step, seed=asked.encode_seed)
                reply = TrainReply(payload, {}, asked.client, asked.round_index, "cpu", -1, 4.0, 1.0, 0.1, 1.0, 0.1)
            else:
                reply = ClientDescription(f"client-{node}", node, len(self.nodes), "cpu", "0.1.0")
            yield Message(reply.to_record(), reply_to=message)

def run(clients):
    config = settings(
        task=f"tests.support.tiny_task:TinyTask:width={WIDTH},tests=2", compressor="eden:bits=1", num_server_rounds=1,
        min_clients=clients, **dict(item.split("=") for item in sys.argv[2:])
    )
    grid = Answering(None, {node: {} for node in range(clients)}, config)
    main(grid, Context(run_id=7, node_id=1, node_config={}, state=RecordDict(), run_config=config))

run(2)
gc.collect()
print(peak_bytes(lambda: run(int(sys.argv[1])), torch.device("cpu")) / (4 * DIM))
"""


def peak(clients: int, *changes: str) -> float:
    """Return the server's peak memory in models."""
    return printed_peak(MEMORY, str(clients), *changes)


def test_a_hundred_clients_take_no_more_memory_than_ten() -> None:
    assert peak(100) < peak(10) + 1
