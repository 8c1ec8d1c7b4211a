"""Checks of the way to the coordinator: name, port, clock, certificate, key, and what else answers there."""

from __future__ import annotations

import http.client
import socket
import ssl
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from pathlib import Path

from cryptography import x509

from fedcomp.site.authority import hosts_of, name_of, read_certificate
from fedcomp.site.errors import BadKey
from fedcomp.site.findings import Finding, note, ok, wrong
from fedcomp.site.profile import CoordinatorEntry, resolve
from fedcomp.site.registration import Registration, ask_registration
from fedcomp.site.supernode_keys import read_private_key

TIMEOUT = 10.0

# Flower refuses a SuperNode whose clock is more than 5 s ahead or 305 s behind; the server tells whole seconds.
_MOST_AHEAD, _MOST_BEHIND = timedelta(seconds=4), timedelta(seconds=300)
_WORTH_A_NOTE = timedelta(seconds=2)
_SOON = timedelta(days=30)

# OpenSSL's numbers of what can be wrong with a chain.
_NOT_YET, _EXPIRED, _WRONG_NAME, _WRONG_ADDRESS = 9, 10, 62, 64
_UNKNOWN_AUTHORITY = (2, 7, 18, 19, 20, 21)


Clock = Callable[[], datetime]
"""This machine's time, with its zone."""


@dataclass(frozen=True)
class Greeting:
    """What a server showed before anything was believed: its certificate, and how far this clock is ahead of its."""

    certificate: x509.Certificate
    ahead: timedelta | None


def check_connection(coordinator: CoordinatorEntry, profile_path: Path, *, clock: Clock) -> list[Finding]:
    """Return what is to say about the way to the coordinator, in order; ends where nothing more can be found.

    Nothing secret is sent, and nothing is changed at the coordinator.
    """
    found = [_port(coordinator)]
    if urllib.request.getproxies().get("https"):
        found.append(note("HTTPS proxy", "HTTPS_PROXY is set: the SuperNode will use it, these checks do not"))
    if found[0].verdict != "ok":
        return found
    greeting = _greet(coordinator, clock)
    if isinstance(greeting, Finding):
        return [*found, greeting]
    found.append(_clock(greeting.ahead))
    certificate = _certificate(coordinator, profile_path, greeting.certificate, now=clock())
    found.append(certificate)
    if certificate.verdict == "WRONG":
        return found
    context = ssl.create_default_context(cafile=str(resolve(profile_path, coordinator.ca)))
    found.append(_registered(coordinator, profile_path, context, now=clock(), clock=found[-2]))
    found.append(_only_fleet(coordinator, context))
    return found


def _port(coordinator: CoordinatorEntry) -> Finding:
    what, place = "port", f"{coordinator.address}, port {coordinator.port}"
    try:
        socket.create_connection((coordinator.address, coordinator.port), timeout=TIMEOUT).close()
    except socket.gaierror:
        return wrong(what, f"the name {coordinator.address} is not known here; check it in site.toml, and this DNS")
    except TimeoutError:
        return wrong(what, f"{place} does not answer; a firewall drops it: open the way out to it")
    except ConnectionRefusedError:
        return wrong(what, f"{place} is closed: the coordinator's proxy is not running, or the port is another")
    except OSError as error:
        return wrong(what, f"{place} cannot be reached: {error.strerror or error}; check the network of this machine")
    return ok(what, f"{place} answers")


def _greet(coordinator: CoordinatorEntry, clock: Clock) -> Greeting | Finding:
    """Look at the certificate and the clock of whoever answers, without trust."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    connection = http.client.HTTPSConnection(coordinator.address, coordinator.port, timeout=TIMEOUT, context=context)
    try:
        connection.connect()
        if not isinstance(connection.sock, ssl.SSLSocket):
            return wrong("TLS", "no TLS connection was made")
        shown = connection.sock.getpeercert(binary_form=True) or b""
        connection.request("GET", "/")
        date = _parsed(connection.getresponse().getheader("Date"))
        ahead = None if date is None else clock() - date
    except ssl.SSLError as error:
        return wrong(
            "TLS",
            f"{coordinator.address}, port {coordinator.port} answers, but not with TLS ({error.reason or error}): the "
            "port is another, or the coordinator runs --insecure; nothing was sent",
        )
    except (OSError, http.client.HTTPException) as error:
        return wrong(
            "TLS", f"the server ended the connection ({str(error) or type(error).__name__}); ask the coordinator"
        )
    finally:
        connection.close()
    return Greeting(read_certificate(shown), ahead)


def _clock(ahead: timedelta | None) -> Finding:
    what = "clock"
    if ahead is None:
        return note(what, "the server does not say what time it is")
    says = f"{_duration(abs(ahead))} {'ahead of' if ahead > timedelta() else 'behind'} the coordinator's"
    if ahead > _MOST_AHEAD or -ahead > _MOST_BEHIND:
        return wrong(
            what,
            f"this machine's clock is {says}; 5 s ahead or 5 min behind is refused: set it, timedatectl set-ntp true",
        )
    if abs(ahead) > _WORTH_A_NOTE:
        return note(what, f"this machine's clock is {says}; let it be kept right, timedatectl set-ntp true")
    return ok(what, "within 2 s of the coordinator's")


def _certificate(
    coordinator: CoordinatorEntry, profile_path: Path, shown: x509.Certificate, *, now: datetime
) -> Finding:
    what, file = "certificate", resolve(profile_path, coordinator.ca)
    end = shown.not_valid_after_utc
    try:
        context = ssl.create_default_context(cafile=str(file))
        with (
            socket.create_connection((coordinator.address, coordinator.port), timeout=TIMEOUT) as plain,
            context.wrap_socket(plain, server_hostname=coordinator.address),
        ):
            pass
    except ssl.SSLCertVerificationError as error:
        return wrong(what, _cause(error, coordinator, shown, file))
    except (OSError, ssl.SSLError) as error:
        return wrong(what, f"cannot be checked with {file}: {error.strerror or error}; see the line on the authority")
    says = f"for {', '.join(hosts_of(shown))}, until {end:%Y-%m-%d}"
    if end - now < _SOON:
        return note(what, f"{says}: tell the coordinator to renew it (`fedcomp site renew`)")
    return ok(what, says)


def _cause(
    error: ssl.SSLCertVerificationError, coordinator: CoordinatorEntry, shown: x509.Certificate, file: Path
) -> str:
    if error.verify_code == _EXPIRED:
        return (
            f"the server's certificate ended on {shown.not_valid_after_utc:%Y-%m-%d %H:%M} UTC; the coordinator must "
            "renew it (`fedcomp site renew`), unless this machine's clock is wrong"
        )
    if error.verify_code == _NOT_YET:
        return (
            f"the server's certificate begins on {shown.not_valid_before_utc:%Y-%m-%d %H:%M} UTC, which is not yet: "
            "this machine's clock is wrong, or the coordinator's was"
        )
    if error.verify_code in (_WRONG_NAME, _WRONG_ADDRESS):
        return (
            f"the server's certificate is for {', '.join(hosts_of(shown)) or 'nobody'}, not for {coordinator.address}; "
            f"use one of these in site.toml, or let the coordinator run `fedcomp site renew --host "
            f"{coordinator.address}`"
        )
    if error.verify_code in _UNKNOWN_AUTHORITY:
        issuer = shown.issuer.rfc4514_string()
        return (
            f"the server's certificate ({name_of(shown)}) was issued by {issuer}, which is not the authority in "
            f"{file}: this is another server, somebody is in between, or ca.crt is of another federation"
        )
    return f"the server's certificate is refused: {error.verify_message}; ask the coordinator"


def _registered(
    coordinator: CoordinatorEntry, profile_path: Path, context: ssl.SSLContext, *, now: datetime, clock: Finding
) -> Finding:
    what = "registration"
    try:
        key = read_private_key(resolve(profile_path, coordinator.key).read_bytes())
    except (OSError, BadKey):
        return wrong(what, "cannot be asked for without the SuperNode key, see there")
    answer = ask_registration(coordinator.address, coordinator.port, key, context=context, now=now, timeout=TIMEOUT)
    if answer is Registration.REGISTERED:
        return ok(what, "the coordinator knows this site's key")
    if answer is Registration.UNKNOWN:
        return wrong(
            what,
            "the coordinator does not know this site's key: it was never registered, or was revoked; ask whether "
            "`fedcomp site sync` was run there",
        )
    if answer is Registration.REFUSED:
        blame = "the clock is wrong, see there" if clock.verdict == "WRONG" else "the key file is damaged"
        return wrong(what, f"the coordinator refused this site's signature: {blame}")
    return wrong(what, f"the coordinator gave no answer that can be used ({answer}); ask the coordinator")


def _only_fleet(coordinator: CoordinatorEntry, context: ssl.SSLContext) -> Finding:
    what = "exposure"
    connection = http.client.HTTPSConnection(coordinator.address, coordinator.port, timeout=TIMEOUT, context=context)
    try:
        connection.request("GET", "/openapi.json")
        answered = connection.getresponse().status == http.client.OK
    except (OSError, http.client.HTTPException):
        answered = False
    finally:
        connection.close()
    if answered:
        return note(
            what,
            "more than the Fleet API answers there, so others could submit code; tell the coordinator to put the proxy "
            "in front",
        )
    return ok(what, "nothing but the Fleet API answers")


def _parsed(date: str | None) -> datetime | None:
    try:
        found = parsedate_to_datetime(date) if date else None
    except ValueError:
        return None
    return found if found is None or found.tzinfo else found.replace(tzinfo=UTC)


def _duration(length: timedelta) -> str:
    seconds = round(length.total_seconds())
    days, rest = divmod(seconds, 86400)
    hours, rest = divmod(rest, 3600)
    minutes, seconds = divmod(rest, 60)
    parts = [(days, "d"), (hours, "h"), (minutes, "min"), (seconds, "s")]
    return " ".join(f"{value} {unit}" for value, unit in parts if value) or "0 s"
