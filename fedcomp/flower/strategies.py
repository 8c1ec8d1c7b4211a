"""What a Flower strategy needs of its replies: all of them, or their weighted mean."""

from __future__ import annotations

from flwr.serverapp.strategy import FedAdagrad, FedAdam, FedAvg, FedAvgM, FedYogi, Strategy
from flwr.serverapp.strategy.strategy_utils import aggregate_metricrecords

# FedProx, too, aggregates as FedAvg does.
_MEAN_BASED = {kind.aggregate_train for kind in (FedAvg, FedAvgM, FedAdam, FedYogi, FedAdagrad)}


def needs_mean_only(strategy: Strategy | None) -> bool:
    """Tell whether one reply that holds the weighted mean does for the strategy what all replies would.

    So it is for FedAvg, FedProx, FedAvgM, FedAdam, FedYogi and FedAdagrad, and for subclasses that leave aggregation as
    it is, while metrics are averaged by Flower's own function.
    """
    if not isinstance(strategy, FedAvg):
        return False
    kind = type(strategy)
    changed = {"aggregate_train", "_check_and_log_replies"} & vars(strategy).keys()
    return (
        kind.aggregate_train in _MEAN_BASED
        and kind._check_and_log_replies is FedAvg._check_and_log_replies
        and not changed
        and strategy.train_metrics_aggr_fn is aggregate_metricrecords
    )


def weight_key(strategy: Strategy | None) -> str | None:
    """Return the metric that holds a reply's weight, that of the wrapped strategy for a wrapper; None if unknown."""
    while strategy is not None:
        key = getattr(strategy, "weighted_by_key", None)
        if isinstance(key, str):
            return key
        strategy = getattr(strategy, "strategy", None)
    return None
