"""The text of a new site's ``site.toml``, with every setting explained in it."""

from __future__ import annotations

from fedcomp.site.profile import CoordinatorEntry

_TEXT = """\
# Who this site is, what it may send, and how it reaches the coordinator. Yours to change, but for what is marked (*),
# by which the coordinator knows it. Changes above [coordinator] count from the next message on, those below it from the
# next start. `fedcomp site check` says whether all is well. Paths are absolute, or relative to this file's folder.

name = "{name}"                # (*)
partition-id = {partition_id}                # (*) its part of a data set that all sites have in common,
num-partitions = {num_partitions}              # (*) of so many

# A data set of this site's own, made here with `fedcomp data prepare … --name NAME`; all of it is trained on. Without
# one the run's data set is used, of which this site takes its part.
# data = "{state}/fedcomp/data/NAME"

# Where to train: "cpu", "cuda", "cuda:1" or "auto"; the run says, unless this does.
# device = "cuda"

# How much to send, in bits a coordinate (32 is no compression), or the bandwidth that there is. The run says, unless
# one of these does.
# bits = 1.0
# uplink-mbps = 10.0

# The most that may ever leave, in bits a coordinate, whatever a run asks for; more is not sent.
# max-bits = 4.0

# Write a line to the log and to FEDCOMP_HOME/sent/{name}.jsonl for every message that leaves.
show-sent = true

# The keys that seal all messages end to end. With this line, messages that are not sealed are refused.
{sealing}sealing = "sealing"

[coordinator]
address = "{address}"
port = {port}
ca = "{ca}"                # who the coordinator must be certified by
key = "{key}"       # (*) what this site shows to be let in
local-port = {local_port}            # a free port on this machine, for its own use
fedcomp = "{fedcomp}"           # versions this site should have
flwr = "{flwr}"
"""


def profile_text(
    name: str, partition_id: int, num_partitions: int, coordinator: CoordinatorEntry, *, sealed: bool
) -> str:
    """Return the profile of a new site; with ``sealed`` it refuses messages that are not sealed."""
    return _TEXT.format(
        name=name,
        partition_id=partition_id,
        num_partitions=num_partitions,
        state="/var/lib/fedcomp",
        sealing="" if sealed else "# ",
        address=coordinator.address,
        port=coordinator.port,
        ca=coordinator.ca,
        key=coordinator.key,
        local_port=coordinator.local_port,
        fedcomp=coordinator.fedcomp,
        flwr=coordinator.flwr,
    )
