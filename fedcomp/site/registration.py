"""Asks a SuperLink whether it knows a SuperNode's key, without the SuperNode being started.

The request is the one by which a SuperNode goes online, signed as always, but with a heartbeat interval of zero: the
SuperLink looks the key up first and then refuses the interval, so that nothing changes there.
"""

from __future__ import annotations

import base64
import http.client
import json
import ssl
from datetime import datetime
from enum import Enum

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec

from fedcomp.site.supernode_keys import public_pem

_PATH = "/v1/fleet/activate-node"
# Flower's numbers of errors.
_BAD_INTERVAL, _NO_SUCH_NODE = 2003, 2004
_MOST_BYTES = 65536


class Registration(Enum):
    """What a SuperLink says of a key."""

    REGISTERED = "registered"
    UNKNOWN = "not registered"
    REFUSED = "signature refused"
    NO_FLEET_API = "there is no Fleet API at this address"
    SUPERLINK_AWAY = "the proxy answers, the SuperLink behind it does not"
    UNCLEAR = "an answer of another kind"
    SILENT = "no answer"

    def __str__(self) -> str:
        return self.value


def ask_registration(
    address: str,
    port: int,
    key: ec.EllipticCurvePrivateKey,
    *,
    context: ssl.SSLContext,
    now: datetime,
    timeout: float,
) -> Registration:
    """Return what the SuperLink at an address says of a key; ``timeout`` in seconds."""
    public = public_pem(key)
    signed_at = now.isoformat()
    headers = {
        "content-type": "application/protobuf",
        "flwr-public-key": base64.b64encode(public).decode(),
        "flwr-timestamp": signed_at,
        "flwr-signature": base64.b64encode(key.sign(signed_at.encode(), ec.ECDSA(hashes.SHA256()))).decode(),
    }
    connection = http.client.HTTPSConnection(address, port, timeout=timeout, context=context)
    try:
        connection.request("POST", _PATH, body=activation(public), headers=headers)
        answer = connection.getresponse()
        return _meaning(answer.status, answer.read(_MOST_BYTES))
    except (OSError, http.client.HTTPException):
        return Registration.SILENT
    finally:
        connection.close()


def activation(public: bytes) -> bytes:
    """Return Flower's ``ActivateNodeRequest`` in protobuf: field 1, the key; field 2, the interval, is left at zero."""
    length = len(public)
    return b"\x0a" + bytes([length & 0x7F | 0x80, length >> 7] if length > 0x7F else [length]) + public


def _meaning(status: int, body: bytes) -> Registration:
    if status == http.client.UNAUTHORIZED:
        return Registration.REFUSED
    if status in (http.client.NOT_FOUND, http.client.METHOD_NOT_ALLOWED):
        return Registration.NO_FLEET_API
    if status in (http.client.BAD_GATEWAY, http.client.SERVICE_UNAVAILABLE, http.client.GATEWAY_TIMEOUT):
        return Registration.SUPERLINK_AWAY
    try:
        code = json.loads(body)["code"]
    except (ValueError, KeyError, TypeError):
        return Registration.UNCLEAR
    return {_BAD_INTERVAL: Registration.REGISTERED, _NO_SUCH_NODE: Registration.UNKNOWN}.get(code, Registration.UNCLEAR)
