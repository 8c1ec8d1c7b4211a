"""From what happened to what is kept and shown: the runs database and the progress lines."""

from __future__ import annotations

import logging
import math
import platform
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version

import torch

import fedcomp
from dashboard.store import ClientResult, RoundResult, RoundStatus, RunStart, RunStore, heartbeat
from fedcomp.errors import ConfigError
from fedcomp.flower.messages import TrainReply
from fedcomp.resume import check_same_run
from fedcomp.run_config import RunConfig
from server_app.outcomes import ClientOutcome, RoundOutcome

log = logging.getLogger("fedcomp.server")

_PACKAGES = ("flwr", "torch", "numpy", "ray")


@dataclass(frozen=True)
class RoundTest:
    """What the server measured of a round's model.

    Attributes
    ----------
    accuracy, loss
        On held-out data.
    update_norm
        Length of the mean update; None when there was none.
    rolled_back
        Whether the model was found to have diverged.
    server_seconds, evaluate_seconds
        fedcomp's own work at the server (decoding, adding, stepping), and the test.
    """

    accuracy: float
    loss: float
    update_norm: float | None
    rolled_back: bool
    server_seconds: float
    evaluate_seconds: float


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
        self._dim = 0
        self._bits: float | None = None

    @classmethod
    @contextmanager
    def open(cls, url: str) -> Iterator[Reporter]:
        """Open the runs database, or the way to a dashboard, for as long as the ``with`` block lasts.

        Meanwhile the run shows signs of life, however long its rounds are.
        """
        with RunStore.open(url) as store:
            reporter = cls(store)
            with heartbeat(store, lambda: reporter.run_id):
                yield reporter

    def start(self, config: RunConfig, *, data_label: str, dim: int, flower_run_id: int, device: torch.device) -> str:
        """Create the run, mark it as running and return its id."""
        self._know(config, dim)
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
        return self.run_id

    def find(self, config: RunConfig) -> str:
        """Return the id of the run that ``config.resume`` names; nothing is written.

        Raises
        ------
        RunNotFound, AmbiguousRun
            When it names none, or more than one.
        ConfigError
            When the run began with other settings, or has no checkpoint.
        """
        run = self._store.find_run(config.resume)
        check_same_run(run.id, run.config, config)
        if run.checkpoint_path is None:
            raise ConfigError(f"run {run.id} has no checkpoint to resume from; start it anew")
        return run.id

    def _know(self, config: RunConfig, dim: int) -> None:
        self._dim = dim
        self._bits = fedcomp.compressor(config.compressor).nominal_bits

    def resume(self, run_id: str, round_index: int, config: RunConfig, *, dim: int, flower_run_id: int) -> None:
        """Take up a run after a round: forget later ones, which will be run again, and mark it as running."""
        self.run_id = run_id
        self._know(config, dim)
        self._store.delete_rounds_after(self.run_id, round_index)
        settings = dict(config.to_mapping()) | {"resume": ""}
        rounds = config.num_server_rounds
        self._store.start_run(self.run_id, flower_run_id=str(flower_run_id), num_rounds=rounds, config=settings)

    def stop_requested(self) -> bool:
        """Whether somebody asked for the run to end."""
        return self._store.stop_requested(self.run_id)

    def record(self, outcome: RoundOutcome, test: RoundTest) -> None:
        """Store one round with its clients and log one line about it."""
        items, used = outcome.outcomes, outcome.applied
        downlink = sum(item.downlink_payload_bytes for item in items)
        # A client has one row a round: where it was asked again, its late reply counts in the totals alone.
        asked = {item.client.name for item in items}
        rows = items + [item for item in outcome.late if item.client.name not in asked]
        result = RoundResult(
            round_index=outcome.round_index,
            accuracy=test.accuracy,
            loss=test.loss,
            train_loss=_mean_loss(used),
            asked=len(items),
            clients=len(used),
            rejected=sum(item.verdict == "rejected" for item in items),
            late=len(outcome.late),
            uplink_payload_bytes=sum(item.payload_bytes for item in outcome.all_items),
            uplink_envelope_bytes=sum(item.envelope_bytes for item in outcome.all_items),
            downlink_payload_bytes=downlink,
            downlink_envelope_bytes=sum(item.downlink_envelope_bytes for item in items),
            bits_per_coordinate=_rate(sum(item.payload_bytes for item in used), self._dim * len(used)),
            downlink_bits_per_coordinate=_rate(downlink, self._dim * len(items)) if items else None,
            update_norm=test.update_norm,
            nmse=outcome.nmse,
            model_version=outcome.version,
            seconds=time.perf_counter() - outcome.started,
            server_seconds=test.server_seconds,
            evaluate_seconds=test.evaluate_seconds,
            status=_status(outcome, rolled_back=test.rolled_back),
            note=outcome.note,
        )
        self._store.record_round(self.run_id, result, [self._client_result(item, outcome) for item in rows])
        log.info(
            "round %d%s: accuracy %.4f, loss %.4f, %d clients, %d rejected, uplink %s bytes, %.3f bits/coord., %.1f s",
            outcome.round_index,
            "" if result.status == "ok" else f" ({result.status})",
            test.accuracy,
            test.loss,
            len(used),
            result.rejected,
            f"{result.uplink_payload_bytes:,}",
            result.bits_per_coordinate,
            result.seconds,
        )

    def checkpoint(self, path: str) -> None:
        """Note where the last checkpoint is."""
        self._store.set_checkpoint(self.run_id, path)

    def complete(self, stop_reason: str | None) -> None:
        """Mark the run as completed; with the reason when it ended before its last round."""
        if stop_reason is not None:
            self._store.set_stop_reason(self.run_id, stop_reason)
        self._store.finish_run(self.run_id, "completed")

    def fail(self, error: BaseException) -> None:
        """Mark the run as failed or, when it was interrupted, as cancelled."""
        if self.run_id:
            interrupted = isinstance(error, KeyboardInterrupt | SystemExit)
            reason = f"{type(error).__name__}: {error}"
            self._store.finish_run(self.run_id, "cancelled" if interrupted else "failed", reason)

    def _client_result(self, item: ClientOutcome, outcome: RoundOutcome) -> ClientResult:
        reply, outlier = item.reply, outcome.outliers.get(item.client.name)
        codec_bits = self._bits if item.budget.bits is None else item.budget.bits
        return ClientResult(
            client=item.client.name,
            client_id=str(item.client.client_id),
            node_id=str(item.client.node_id),
            num_examples=_examples(reply),
            weight=item.weight,
            payload_bytes=item.payload_bytes,
            envelope_bytes=item.envelope_bytes,
            downlink_payload_bytes=item.downlink_payload_bytes,
            downlink_envelope_bytes=item.downlink_envelope_bytes,
            bits_asked=codec_bits,
            bits_source=item.budget.source,
            bits_per_coordinate=_rate(item.payload_bytes, self._dim),
            uplink_mbps_estimate=item.uplink_mbps,
            train_seconds=reply.train_seconds if reply else 0.0,
            encode_seconds=reply.encode_seconds if reply else 0.0,
            decode_seconds=item.decode_seconds,
            train_loss=reply.train_loss if reply else None,
            vnmse=reply.vnmse if reply else None,
            update_norm=item.norm,
            clip_factor=item.clip_factor,
            cosine=outlier.cosine if outlier else None,
            outlier=outlier.flag if outlier else None,
            device=reply.device if reply else item.client.device,
            outcome=item.verdict,
            reject_reason=item.reject_reason,
            round_asked=item.round_asked,
            staleness=item.staleness,
        )


def _rate(payload_bytes: int, coordinates: int) -> float:
    return 8 * payload_bytes / coordinates if coordinates else math.nan


def _mean_loss(used: list[ClientOutcome]) -> float | None:
    replies = [item.reply for item in used if item.reply is not None]
    weight = sum(reply.num_examples for reply in replies)
    return sum(reply.num_examples * reply.train_loss for reply in replies) / weight if weight else None


def _status(outcome: RoundOutcome, *, rolled_back: bool) -> RoundStatus:
    if rolled_back:
        return "rolled-back"
    if outcome.mean is None:
        return "skipped"
    return "partial" if len(outcome.applied) < outcome.wanted else "ok"


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
