"""What changes from round to round by plan: rates, batch and cohort sizes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from fedcomp.optim.scaling import grown, scaled_rate
from fedcomp.optim.schedule_specs import parse_schedule
from fedcomp.optim.schedules import Schedule
from fedcomp.run_config import RunConfig


@dataclass(frozen=True)
class Recipe:
    """The schedules of a run.

    Attributes
    ----------
    config
        The run's settings: the values that the schedules multiply.
    server, client, cohort, batch
        Of the server's rate, the clients' rate, the cohort's size and the clients' batch size.
    """

    config: RunConfig
    server: Schedule
    client: Schedule
    cohort: Schedule
    batch: Schedule

    @classmethod
    def of(cls, config: RunConfig) -> Self:
        """Parse the schedules; raises ConfigError naming the setting."""
        # The clients read this one themselves; it is said here if it is wrong, before anybody waits.
        parse_schedule(config.local_schedule, key="local-schedule")
        return cls(
            config,
            server=parse_schedule(config.server_schedule, key="server-schedule"),
            client=parse_schedule(config.learning_rate_schedule, key="learning-rate-schedule"),
            cohort=parse_schedule(config.cohort_schedule, key="cohort-schedule"),
            batch=parse_schedule(config.batch_schedule, key="batch-schedule"),
        )

    def learning_rate(self, round_index: int) -> float:
        """Return the clients' step size in a round."""
        return self.config.learning_rate * self._factor(self.client, round_index)

    def batch_size(self, round_index: int) -> int:
        """Return the clients' batch size in a round."""
        return grown(self.config.batch_size, self._factor(self.batch, round_index))

    def cohort_size(self, round_index: int) -> int:
        """Return how many updates a round wants; 0 for all clients."""
        if not self.config.clients_per_round:
            return 0
        return grown(self.config.clients_per_round, self._factor(self.cohort, round_index))

    def server_rate(self, round_index: int, *, cohort: int) -> float:
        """Return the server's step size after a round of ``cohort`` wanted updates."""
        rate = scaled_rate(
            self.config.server_learning_rate,
            cohort=max(cohort, 1),
            base=self.config.server_rate_base,
            rule=self.config.server_rate_scaling,
        )
        return rate * self._factor(self.server, round_index)

    def restarts(self, round_index: int) -> bool:
        """Whether the server's schedule begins anew with this round, and with it the optimizer's moments."""
        return self.server.restarts_at(round_index, self.config.num_server_rounds)

    def _factor(self, schedule: Schedule, round_index: int) -> float:
        return schedule.factor(round_index, self.config.num_server_rounds)
