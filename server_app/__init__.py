"""What runs at the coordinator: rounds, aggregation, checkpoints and records."""
