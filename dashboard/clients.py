"""What clients did over the rounds of some runs: who is slow, who is rejected, who sends how many bits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from sqlalchemy.orm import Session

from dashboard.client_stats import ClientStats, stats_of
from dashboard.schemas_compare import ClientSummary


def client_summary(session: Session, run_ids: Sequence[str]) -> list[ClientSummary]:
    """Return one row a client name, sorted by name, over all rounds of these runs; writes nothing."""
    by_client: dict[str, list[ClientStats]] = {}
    for stats in stats_of(session, list(dict.fromkeys(run_ids))).values():
        for item in stats:
            by_client.setdefault(item.client, []).append(item)
    return [_summary(client, by_client[client]) for client in sorted(by_client)]


def _summary(client: str, runs: Sequence[ClientStats]) -> ClientSummary:
    def mean(name: str) -> float | None:
        count = sum(run.counts[name] for run in runs)
        return sum(run.sums[name] for run in runs) / count if count else None

    reasons: Counter[str] = Counter()
    for run in runs:
        reasons.update(run.reject_reasons)
    return ClientSummary(
        client=client,
        runs=len(runs),
        rounds=sum(run.rounds for run in runs),
        applied=sum(run.applied for run in runs),
        rejected=sum(run.rejected for run in runs),
        late=sum(run.late for run in runs),
        payload_bytes=sum(run.payload_bytes for run in runs),
        mean_bits_per_coordinate=mean("bits"),
        mean_bits_asked=mean("bits_asked"),
        mean_train_seconds=mean("train_seconds"),
        max_train_seconds=max(
            (run.max_train_seconds for run in runs if run.max_train_seconds is not None), default=None
        ),
        mean_encode_seconds=mean("encode_seconds"),
        mean_uplink_mbps=mean("uplink_mbps"),
        devices=tuple(sorted({device for run in runs for device in run.devices})),
        reject_reasons=dict(sorted(reasons.items())),
    )
