"""What each client did over a whole run, for the terminal."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rich.table import Table

from dashboard.schemas import ClientResult, RunDetail
from fedcomp.commands.tables import make_table, number


@dataclass(frozen=True)
class ClientTotals:
    """One client over a run.

    Attributes
    ----------
    client, device
        Its name and the device it said last.
    asked, applied, rejected, late, over_selected
        Rounds that asked it, and how many of its updates had which outcome.
    bits_asked, bits_sent, vnmse
        Means over the updates that have the number; None when none has.
    bytes_up, bytes_down
        Payloads and envelopes.
    train_seconds, encode_seconds
        Sums.
    last_reject, outliers
        (round, reason) of the last rejection, and of every round in which it stood out.
    """

    client: str
    device: str
    asked: int
    applied: int
    rejected: int
    late: int
    over_selected: int
    bits_asked: float | None
    bits_sent: float | None
    vnmse: float | None
    bytes_up: int
    bytes_down: int
    train_seconds: float
    encode_seconds: float
    last_reject: tuple[int, str] | None
    outliers: tuple[tuple[int, str], ...]


def client_totals(run: RunDetail) -> list[ClientTotals]:
    """Return every client of a run, in the order of their names, with numbers in them as numbers."""
    found: dict[str, list[tuple[int, ClientResult]]] = {}
    for item in run.rounds:
        for result in item.client_results:
            found.setdefault(result.client, []).append((item.round_index, result))
    return [_totals(name, found[name]) for name in sorted(found, key=_natural)]


def _natural(name: str) -> list[tuple[int, str]]:
    return [(int(part) if part.isdecimal() else -1, part) for part in re.split(r"([0-9]+)", name)]


def clients_table(clients: Iterable[ClientTotals]) -> Table:
    """Return one line a client."""
    columns = (
        "client",
        "device",
        "asked",
        "applied",
        "re-\njected",
        "late",
        "unused",
        "bits\nasked",
        "bits\nsent",
        "vNMSE",
        "MB up",
        "MB\ndown",
        "train\ns",
        "encode\ns",
    )
    table = make_table("clients over the run; MB are payloads and envelopes", columns, padding=0)
    for item in clients:
        table.add_row(
            item.client,
            item.device,
            str(item.asked),
            str(item.applied),
            str(item.rejected),
            str(item.late),
            str(item.over_selected),
            number(item.bits_asked, ".3f"),
            number(item.bits_sent, ".3f"),
            number(item.vnmse, ".3g"),
            f"{item.bytes_up / 1e6:.2f}",
            f"{item.bytes_down / 1e6:.2f}",
            f"{item.train_seconds:.1f}",
            f"{item.encode_seconds:.1f}",
        )
    return table


def client_notes(clients: Iterable[ClientTotals]) -> list[str]:
    """Return a line for each client that was rejected or stood out."""
    lines = []
    for item in clients:
        if item.last_reject is not None:
            index, reason = item.last_reject
            lines.append(f"{item.client}: last rejected in round {index}: {reason}")
        if item.outliers:
            index, flag = item.outliers[-1]
            rounds = ", ".join(str(round_index) for round_index, _ in item.outliers)
            lines.append(f"{item.client}: stands out in round{'s' * (len(item.outliers) > 1)} {rounds}: {flag}")
    return lines


def _totals(name: str, results: Sequence[tuple[int, ClientResult]]) -> ClientTotals:
    outcomes = [result.outcome for _, result in results]
    # A late update has a row in the round it came in, and often one in the round that had asked for it.
    asked = {index if result.round_asked is None else result.round_asked for index, result in results}
    rejects = [(index, result.reject_reason or "") for index, result in results if result.outcome == "rejected"]
    return ClientTotals(
        client=name,
        device=next((result.device for _, result in reversed(results) if result.device), ""),
        asked=len(asked),
        applied=outcomes.count("applied"),
        rejected=outcomes.count("rejected"),
        late=outcomes.count("late"),
        over_selected=outcomes.count("over-selected"),
        bits_asked=_mean(result.bits_asked for _, result in results),
        bits_sent=_mean(result.bits_per_coordinate for _, result in results if result.payload_bytes),
        vnmse=_mean(result.vnmse for _, result in results),
        bytes_up=sum(result.payload_bytes + result.envelope_bytes for _, result in results),
        bytes_down=sum(result.downlink_payload_bytes + result.downlink_envelope_bytes for _, result in results),
        train_seconds=sum(result.train_seconds for _, result in results),
        encode_seconds=sum(result.encode_seconds for _, result in results),
        last_reject=rejects[-1] if rejects else None,
        outliers=tuple((index, result.outlier) for index, result in results if result.outlier is not None),
    )


def _mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None and math.isfinite(value)]
    return math.fsum(known) / len(known) if known else None
