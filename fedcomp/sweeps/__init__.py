"""Sweeps: many runs that differ in compressor, bits, task and seed, and what they show together."""
