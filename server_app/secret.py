"""The run secret, from which all seeds are derived; it never leaves the server app and never is part of run_config.

It mixes a secret of this host with the run's seed, so that a run repeats on its host, while who only sees the run's
settings cannot tell the seeds of any client.
"""

from __future__ import annotations

import hashlib
import os
import secrets
from pathlib import Path

from fedcomp.errors import ConfigError

ENVIRONMENT_VARIABLE = "FEDCOMP_RUN_SECRET"
_BYTES = 32


def run_secret(seed: int, home: Path) -> bytes:
    """Return 32 bytes that depend on the host's secret and the run's seed.

    The host's secret is the text in ``FEDCOMP_RUN_SECRET`` when set (at least 16 characters), else the file
    ``host-secret`` in ``home``, made on first use, readable by its owner only.

    Raises
    ------
    ConfigError
        When the variable or the file is too short to be a secret.
    """
    configured = os.environ.get(ENVIRONMENT_VARIABLE)
    host_secret = configured.encode() if configured else _host_secret(home / "host-secret")
    if len(host_secret) < 16:
        source = ENVIRONMENT_VARIABLE if configured else str(home / "host-secret")
        raise ConfigError(f"{source} has {len(host_secret)} bytes; give at least 16 random ones")
    key = hashlib.blake2b(host_secret, digest_size=_BYTES, person=b"fedcomp-host").digest()
    return hashlib.blake2b(seed.to_bytes(8, "little"), key=key, digest_size=_BYTES, person=b"fedcomp-run").digest()


def _host_secret(path: Path) -> bytes:
    # Written under another name and linked into place: of two processes that start at once, both use the first one's.
    if not path.exists():
        draft = path.with_name(f"{path.name}.{secrets.token_hex(8)}")
        draft.touch(mode=0o600)
        draft.write_bytes(secrets.token_bytes(_BYTES))
        try:
            os.link(draft, path)
        except FileExistsError:
            pass
        finally:
            draft.unlink()
    return path.read_bytes()
