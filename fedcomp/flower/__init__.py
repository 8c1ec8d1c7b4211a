"""fedcomp on Flower: what travels in its messages; the only package of fedcomp that imports flwr."""
