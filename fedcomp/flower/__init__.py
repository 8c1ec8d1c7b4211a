"""fedcomp on Flower; the only package of fedcomp that imports flwr.

An existing Flower app whose ServerApp calls ``strategy.start`` sends compressed updates with two changed lines:

- ``compression_mod``, in the ClientApp: ``ClientApp(mods=[compression_mod])`` (or ``@app.train(mods=[…])``), first in
  the list;
- ``CompressedGrid``, in the ServerApp: ``strategy.start(grid=CompressedGrid(grid, "eden:bits=1", strategy=strategy),
  …)``. Its ``rounds`` are one ``CompressedRound`` each, with the ``Rejection`` of every reply that was not used.

A client with the mod also works with a plain Grid: a message without instructions passes as it is. What this way has
not (resume, a compressed downlink, a bit budget for each client) fedcomp's own apps have, which ``fedcomp simulate``
runs; ``messages`` is what those two say to each other.
"""

from fedcomp.flower.grid import CompressedGrid
from fedcomp.flower.mod import compression_mod
from fedcomp.flower.rounds import CompressedRound, Rejection

__all__ = ["CompressedGrid", "CompressedRound", "Rejection", "compression_mod"]
