"""How large a step is, round by round: schedules, scaling with the cohort, and layer-wise server optimizers."""
