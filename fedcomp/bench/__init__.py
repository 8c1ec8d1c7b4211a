"""Benchmarks that anyone can run: ``fedcomp bench``."""
