"""The README files that lie in the coordinator's folder and in each site's archive."""

from __future__ import annotations

from fedcomp.site.federation import Federation, FederationFolder
from fedcomp.site.profile import CoordinatorEntry

_SITE = """\
# fedcomp at {name}

This archive is for `{name}` alone. `supernode.key` and `sealing/sealing.key` are secrets: whoever has them can pass for
{name}. Keep them on this machine, and tell the coordinator at once if they get about.

You need Linux, Python 3.11 or newer, fedcomp {fedcomp} with Flower {flwr}, a clock that is right, and a way out to
`{address}`, TCP port {port}. Nothing needs to come in.

## Set up

```
sudo useradd --system --home-dir /var/lib/fedcomp --create-home --shell /usr/sbin/nologin fedcomp
sudo python3 -m venv /opt/fedcomp
sudo /opt/fedcomp/bin/pip install --constraint constraints.txt .     # in a checkout of fedcomp {fedcomp}
sudo cp -r {name} /etc/fedcomp                                        # the folder that came out of this archive
sudo chown -R fedcomp: /etc/fedcomp
```

Open `/etc/fedcomp/site.toml`, where every setting is explained: what may be sent, where to train, which data. Then let
the machine check itself:

```
sudo -u fedcomp env PATH=/opt/fedcomp/bin:$PATH FEDCOMP_HOME=/var/lib/fedcomp/fedcomp \\
  fedcomp site check --profile /etc/fedcomp/site.toml
```

## Start

```
sudo cp /etc/fedcomp/fedcomp-site.service /etc/systemd/system/
sudo systemctl enable --now fedcomp-site
journalctl --unit fedcomp-site --follow
```

`SuperNode ID` in the log means that the coordinator let this site in. `compose.yaml` does the same in a
container, whose image `Dockerfile` makes. Without either, `fedcomp site up --profile site.toml` keeps the site up.

## What leaves this machine

With `show-sent = true`, each message leaves a line in the log and in
`/var/lib/fedcomp/fedcomp/sent/{name}.jsonl`: run, round, bytes, bits a coordinate. `max-bits` in site.toml is a
limit that no run can raise.

## Check that this archive is the coordinator's

The coordinator can tell you by telephone what `fedcomp site show` says of the authority. Here it is shown by

```
openssl x509 -in /etc/fedcomp/ca.crt -noout -fingerprint -sha256
```
"""

_COORDINATOR = """\
# The coordinator's folder

Secrets: `authority/ca.key` (whoever has it can pass for the coordinator; you may keep it elsewhere and put it back for
`renew`), `server/server.key`, `sealing/server.key`, and each archive until it is handed over. Back all of it up.

| what | where |
| --- | --- |
| the sites and the addresses | `federation.toml` |
| certificate authority | `authority/` |
| server certificate | `server/` |
| keys of sealed messages (`FEDCOMP_SEALING`) | `sealing/` |
| the sites' public keys, to register | `supernodes/` |
| what each site gets; delete it once it is handed over | `archives/` |
| connection for `flwr` (`FLWR_HOME`) | `flwr/` |
| database, and `FEDCOMP_HOME` | `state/` |
| proxy, systemd unit, containers | `deploy/` |

## Start

```
sudo cp {deploy}/fedcomp-coordinator.service /etc/systemd/system/
sudo systemctl enable --now fedcomp-coordinator
sudo ln -s {deploy}/fedcomp-nginx.conf /etc/nginx/conf.d/ && sudo systemctl reload nginx
```

Without systemd, `fedcomp coordinator up {path}` keeps the SuperLink up and lets the sites in.
The SuperLink listens on 127.0.0.1:{local_port} only; sites come through nginx on port {port}, which lets them reach
`/v1/fleet/` and nothing else. Open that port in the firewall, and no other.

## Let the sites in

```
fedcomp site sync {path}
```

Once now, and after each `add` or `revoke`: the SuperLink keeps a list of its own.

## Run

```
export FLWR_HOME={flwr} FEDCOMP_HOME={state}/fedcomp FLWR_DISABLE_UPDATE_CHECK=1 FLWR_TELEMETRY_ENABLED=0
flwr run CHECKOUT coordinator --stream --run-config "{run_config}"
```

More is in docs/deployment.md of fedcomp.
"""


def site_guide(name: str, coordinator: CoordinatorEntry) -> str:
    """Return the README of a site's archive."""
    return _SITE.format(
        name=name,
        address=coordinator.address,
        port=coordinator.port,
        fedcomp=coordinator.fedcomp,
        flwr=coordinator.flwr,
    )


def coordinator_guide(federation: Federation, folder: FederationFolder) -> str:
    """Return the README of the coordinator's folder."""
    sites = len(federation.active)
    settings = [f"min-clients={sites}", *(["sealing='on'"] if federation.sealed else [])]
    return _COORDINATOR.format(
        deploy=folder.deploy,
        flwr=folder.flwr,
        state=folder.state,
        port=federation.port,
        local_port=federation.local_port,
        path=folder.path,
        run_config=" ".join(settings),
    )
