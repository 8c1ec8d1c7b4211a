"""What stays the same over all rounds of a run, and the seeds that follow from it."""

from __future__ import annotations

from dataclasses import dataclass, replace

import fedcomp
from fedcomp.client_bits import BudgetRules, parse_rules
from fedcomp.compressors.base import Compressor
from fedcomp.downlink import Broadcaster
from fedcomp.feedback import check_it_converges
from fedcomp.run_config import RunConfig
from fedcomp.seeds import COHORT_CLIENT_ID, derive_seed
from fedcomp.vectors import VectorSpec
from server_app.optimizers import Optimizer, build_optimizer
from server_app.recipe import Recipe
from server_app.sealing import ServerSeals

_STATE_FILES_BYTES = 3 * 4096
"""What a folder with two files takes beside the tensors, where a block has 4 KiB."""


@dataclass(frozen=True)
class RunPlan:
    """The fixed part of a run.

    Attributes
    ----------
    run_id
        The run's id in the records; clients keep their state under it.
    config
        The run's settings.
    layout
        Layout of the model's state dict.
    secret
        The run secret; all seeds are derived from it.
    rules
        ``config.client_bits``, parsed.
    codec
        ``config.compressor``, for what it says of itself.
    recipe
        The schedules.
    seals
        What seals the messages; None when they are plain.
    """

    run_id: str
    config: RunConfig
    layout: VectorSpec
    secret: bytes
    rules: BudgetRules
    codec: Compressor
    recipe: Recipe
    seals: ServerSeals | None = None

    def for_run(self, run_id: str) -> RunPlan:
        """Return the plan of a run that has its id."""
        return replace(self, run_id=run_id)

    def new_broadcaster(self) -> Broadcaster:
        """Return what sends the model to the clients; raises ConfigError for a compressor that cannot."""
        return Broadcaster(
            fedcomp.compressor(self.config.downlink_compressor),
            full=fedcomp.compressor(self.config.downlink_first_compressor),
            shapes=self.layout.shapes,
        )

    def new_optimizer(self) -> Optimizer:
        """Return what applies mean updates to the model."""
        config = self.config
        return build_optimizer(
            config.strategy,
            shapes=self.layout.shapes,
            learning_rate=config.server_learning_rate,
            momentum=config.server_momentum,
            beta_1=config.beta_1,
            beta_2=config.beta_2,
            tau=config.tau,
            trust=config.trust,
            weight_decay=config.server_weight_decay,
        )

    @classmethod
    def of(cls, run_id: str, config: RunConfig, layout: VectorSpec, secret: bytes) -> RunPlan:
        """Parse what the settings name; raises ConfigError."""
        codec = fedcomp.compressor(config.compressor)
        rules, recipe, seals = parse_rules(config.client_bits), Recipe.of(config), ServerSeals.of(config)
        plan = cls(run_id, config, layout, secret, rules, codec, recipe, seals)
        if plan.uses_feedback:
            check_it_converges(codec, use="compressor")
        return plan

    @property
    def uses_feedback(self) -> bool:
        """Whether clients keep what their encodings lose: as set, by default when the compressor is biased."""
        if self.config.error_feedback == "auto":
            return not self.codec.is_unbiased
        return self.config.error_feedback == "on"

    @property
    def compresses_downlink(self) -> bool:
        """Whether clients get differences, and so must keep the model they hold."""
        return fedcomp.compressor(self.config.downlink_compressor).spec.name != "identity"

    @property
    def decodes_each_update(self) -> bool:
        """Whether each update is looked at before it is added."""
        return bool(self.config.clip_norm or self.config.clip_factor or self.config.outlier_report)

    def client_state_bytes(self) -> int:
        """Return the bytes on a client's disk that one of its states needs at most; 0 when it keeps nothing."""
        # Vectors of float32: a residual and, no longer than one, the payload sent last; the model.
        vectors = 2 * self.uses_feedback + self.compresses_downlink
        return _STATE_FILES_BYTES + 4 * self.layout.dim * vectors if vectors else 0

    @property
    def client_states_kept(self) -> int:
        """How many states a client keeps at most: one a round since the oldest checkpoint, and the one before."""
        return self.config.checkpoint_every * self.config.checkpoint_keep + 2

    def seed(self, round_index: int, client_id: int, purpose: str) -> int:
        """Return the seed of one client, round and purpose."""
        return derive_seed(self.secret, round_index, client_id, purpose)

    def cohort_seed(self, round_index: int, purpose: str) -> int:
        """Return a seed that belongs to the whole round."""
        return derive_seed(self.secret, round_index, COHORT_CLIENT_ID, purpose)
