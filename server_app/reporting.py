"""From what happened to what is kept and shown: the runs database and the progress lines."""

from __future__ import annotations

import logging
import math
import platform
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, version

import torch

import fedcomp
from dashboard.store import ClientResult, RoundResult, RunStart, RunStore
from fedcomp.flower.messages import TrainReply
from fedcomp.run_config import RunConfig
from server_app.rounds import ClientOutcome, RoundOutcome

log = logging.getLogger("fedcomp.server")

_PACKAGES = ("flwr", "torch", "numpy", "ray")


class Reporter:
    """Writes one run into the store, round by round.

    Parameters
    ----------
    store
        Where to.
    """

    def __init__(self, store: RunStore) -> None:
        self._store = store
        self.run_id = ""

    @classmethod
    @contextmanager
    def open(cls, url: str) -> Iterator[Reporter]:
        """Open the runs database for as long as the ``with`` block lasts."""
        with RunStore(url) as store:
            yield cls(store)

    def start(self, config: RunConfig, *, data_label: str, dim: int, flower_run_id: int, device: torch.device) -> None:
        """Create the run and mark it as running."""
        self.run_id = self._store.create_run(
            RunStart(
                name=config.name,
                task=config.task,
                data_label=data_label,
                compressor=config.compressor,
                strategy=config.strategy,
                seed=config.seed,
                num_rounds=config.num_server_rounds,
                dim=dim,
                config=config.to_mapping(),
                environment=_environment(device),
                flower_run_id=str(flower_run_id),
            )
        )
        self._store.start_run(self.run_id)

    def record(
        self, round_index: int, outcome: RoundOutcome, *, dim: int, accuracy: float, loss: float, seconds: float
    ) -> RoundResult:
        """Store one round with its clients and log one line about it."""
        used = [item for item in outcome.outcomes if item.reject_reason is None]
        rejected = len(outcome.outcomes) - len(used)
        result = RoundResult(
            round_index=round_index,
            accuracy=accuracy,
            loss=loss,
            train_loss=_mean_loss(used),
            clients=len(used),
            rejected=rejected,
            uplink_payload_bytes=sum(item.payload_bytes for item in outcome.outcomes),
            uplink_envelope_bytes=sum(item.envelope_bytes for item in outcome.outcomes),
            downlink_payload_bytes=outcome.downlink_payload_bytes,
            downlink_envelope_bytes=outcome.downlink_envelope_bytes,
            bits_per_coordinate=_rate(sum(item.payload_bytes for item in used), dim * len(used)),
            seconds=seconds,
            status="skipped" if outcome.mean is None else "partial" if rejected else "ok",
        )
        self._store.record_round(self.run_id, result, [_client_result(item, dim) for item in outcome.outcomes])
        log.info(
            "round %d: accuracy %.4f, loss %.4f, %d clients, %d rejected, uplink %s bytes, %.3f bits/coord., %.1f s",
            round_index,
            accuracy,
            loss,
            len(used),
            rejected,
            f"{result.uplink_payload_bytes:,}",
            result.bits_per_coordinate,
            seconds,
        )
        return result

    def checkpoint(self, path: str) -> None:
        """Note where the last checkpoint is."""
        self._store.set_checkpoint(self.run_id, path)

    def complete(self) -> None:
        """Mark the run as completed."""
        self._store.finish_run(self.run_id, "completed")

    def fail(self, error: BaseException) -> None:
        """Mark the run as failed or, when it was interrupted, as cancelled."""
        if self.run_id:
            interrupted = isinstance(error, KeyboardInterrupt | SystemExit)
            reason = f"{type(error).__name__}: {error}"
            self._store.finish_run(self.run_id, "cancelled" if interrupted else "failed", reason)


def _rate(payload_bytes: int, coordinates: int) -> float:
    return 8 * payload_bytes / coordinates if coordinates else math.nan


def _mean_loss(used: list[ClientOutcome]) -> float | None:
    replies = [item.reply for item in used if item.reply is not None]
    weight = sum(reply.num_examples for reply in replies)
    return sum(reply.num_examples * reply.train_loss for reply in replies) / weight if weight else None


def _client_result(item: ClientOutcome, dim: int) -> ClientResult:
    reply = item.reply
    return ClientResult(
        client=item.client.name,
        client_id=str(item.client.client_id),
        node_id=str(item.client.node_id),
        num_examples=_examples(reply),
        payload_bytes=item.payload_bytes,
        envelope_bytes=item.envelope_bytes,
        bits_per_coordinate=_rate(item.payload_bytes, dim),
        train_seconds=reply.train_seconds if reply else 0.0,
        encode_seconds=reply.encode_seconds if reply else 0.0,
        decode_seconds=item.decode_seconds,
        train_loss=reply.train_loss if reply else None,
        vnmse=reply.vnmse if reply else None,
        device=reply.device if reply else item.client.device,
        reject_reason=item.reject_reason,
    )


def _examples(reply: TrainReply | None) -> int:
    """Return the number of examples for the records; a rejected client may have claimed anything."""
    if reply is None or not math.isfinite(reply.num_examples):
        return 0
    return min(max(int(reply.num_examples), 0), 2**53)


def _environment(device: torch.device) -> Mapping[str, str]:
    found = {
        "fedcomp": fedcomp.__version__,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "device": str(device),
    }
    for package in _PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found
