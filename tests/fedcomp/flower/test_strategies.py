from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest
from flwr.app import ArrayRecord, Message, MetricRecord, RecordDict
from flwr.serverapp import strategy as flower
from flwr.serverapp.strategy import FedAvg, FedMedian, FedProx, Strategy

from fedcomp.flower.strategies import needs_mean_only, weight_key

MEAN_BASED = ["FedAvg", "FedProx", "FedAvgM", "FedAdam", "FedYogi", "FedAdagrad"]
OTHERS: dict[str, Callable[[], Strategy]] = {
    "Krum": flower.Krum,
    "MultiKrum": flower.MultiKrum,
    "Bulyan": flower.Bulyan,
    "FedMedian": FedMedian,
    "FedTrimmedAvg": flower.FedTrimmedAvg,
    "QFedAvg": lambda: flower.QFedAvg(client_learning_rate=0.1),
    "FedXgbBagging": flower.FedXgbBagging,
    "FedXgbCyclic": flower.FedXgbCyclic,
    "ServerFixed": lambda: flower.DifferentialPrivacyServerSideFixedClipping(FedAvg(), 0.1, 1.0, 2),
    "ClientFixed": lambda: flower.DifferentialPrivacyClientSideFixedClipping(FedAvg(), 0.1, 1.0, 2),
    "ServerAdaptive": lambda: flower.DifferentialPrivacyServerSideAdaptiveClipping(FedAvg(), 0.1, 2),
    "ClientAdaptive": lambda: flower.DifferentialPrivacyClientSideAdaptiveClipping(FedAvg(), 0.1, 2),
}


class ChangedAggregation(FedAvg):
    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        return super().aggregate_train(server_round, replies)


class ChangedChecks(FedProx):
    def _check_and_log_replies(
        self, replies: Iterable[Message], is_train: bool, validate: bool = True
    ) -> tuple[list[Message], list[Message]]:
        return super()._check_and_log_replies(replies, is_train, validate=False)


class ChangedSummary(FedAvg):
    def summary(self) -> None:
        return


def counted(contents: list[RecordDict], key: str) -> MetricRecord:
    return MetricRecord({"clients": len(contents)})


def test_every_strategy_of_flower_is_known_here() -> None:
    missing = {
        name
        for name in flower.__all__
        if name not in {*MEAN_BASED, *OTHERS, "Strategy", "Result"} and not name.startswith("DifferentialPrivacy")
    }
    assert missing == set()


@pytest.mark.parametrize("name", MEAN_BASED)
def test_mean_based_strategies_need_the_mean_only(name: str) -> None:
    assert needs_mean_only(getattr(flower, name)())


@pytest.mark.parametrize("name", OTHERS)
def test_the_others_need_all_replies(name: str) -> None:
    assert not needs_mean_only(OTHERS[name]())


def test_the_documentation_lists_who_streams() -> None:
    text = (Path(__file__).resolve().parents[3] / "docs" / "existing-apps.md").read_text()
    streaming, decoded = re.findall(r"^\| ((?:\w+, )+.*?) \|", text, flags=re.MULTILINE)
    assert streaming.split(", ") == MEAN_BASED
    assert set(decoded.split(", ")[:-1]) == {"Krum", "MultiKrum", "Bulyan", "FedMedian", "FedTrimmedAvg", "QFedAvg"}


def test_what_a_user_changed_decides() -> None:
    assert needs_mean_only(ChangedSummary())
    assert not needs_mean_only(ChangedAggregation())
    assert not needs_mean_only(ChangedChecks())
    assert not needs_mean_only(FedAvg(train_metrics_aggr_fn=counted))
    assert needs_mean_only(FedAvg(evaluate_metrics_aggr_fn=counted))
    patched = FedAvg()
    vars(patched)["aggregate_train"] = FedMedian().aggregate_train
    assert not needs_mean_only(patched)
    assert not needs_mean_only(None)


def test_the_weight_is_that_of_the_wrapped_strategy() -> None:
    assert weight_key(FedAvg(weighted_by_key="n")) == "n"
    wrapped = flower.DifferentialPrivacyServerSideFixedClipping(FedAvg(weighted_by_key="n"), 0.1, 1.0, 2)
    assert weight_key(wrapped) == "n"
    assert weight_key(None) is None
