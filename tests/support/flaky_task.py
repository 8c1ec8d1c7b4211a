"""The EMNIST task on clients of four kinds, of which some fail."""

from __future__ import annotations

import random
import time

from fedcomp.tasks.base import Examples
from fedcomp.tasks.emnist import EmnistTask

KINDS = 4
BITS = {0: 0.5, 1: 1.0, 2: 2.0, 3: 4.0}
CLIENT_BITS = "client-*[048]=0.5, client-*[159]=1, client-*[26]=2, client-*[37]=4"
"""The four kinds' budgets; a client is of the kind that its partition's last digit has, modulo 4."""


class FlakyTask(EmnistTask):
    """Some clients take longer, and each fails with probability ``fail`` each time it is asked."""

    def __init__(self, fail: float = 0.1, delay: float = 0.0, **options: int | float) -> None:
        super().__init__(**options)  # type: ignore[arg-type]
        self.fail, self.delay = fail, delay

    def client_examples(self, partition_id: int, num_partitions: int, *, seed: int) -> Examples:
        time.sleep(self.delay * (partition_id % 10 % KINDS))
        if random.SystemRandom().random() < self.fail:
            raise RuntimeError("this client fails at random")
        return super().client_examples(partition_id, num_partitions, seed=seed)
