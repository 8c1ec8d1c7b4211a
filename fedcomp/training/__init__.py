"""Local training that fits small GPUs and CPUs: micro-batches, precision, checkpointing, memory."""
