"""Checks of the site's own machine: versions, Flower's programs, GPU, data."""

from __future__ import annotations

import shutil
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from fedcomp.data.dataset import open_dataset
from fedcomp.data.manifest import kind_of
from fedcomp.errors import FedcompError
from fedcomp.site.findings import Finding, note, ok, wrong
from fedcomp.site.profile import CoordinatorEntry, SiteProfile, resolve

PROGRAMS = ("flower-supernode", "flower-superexec", "flwr-clientapp")

# In a process of its own: torch takes seconds to load, and a broken driver may end it.
_DEVICES = (
    "import torch; print(torch.cuda.device_count()); "
    "print('; '.join(torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())))"
)
_SECONDS = 120.0


def check_machine(profile: SiteProfile, path: Path) -> list[Finding]:
    """Return what is to say about this machine, given the profile at ``path``."""
    found = []
    if profile.coordinator is not None:
        found += check_versions(profile.coordinator)
    found.append(_programs())
    if profile.device is not None:
        found.append(_device(profile.device))
    found.append(_data(profile, path))
    return found


def check_versions(coordinator: CoordinatorEntry) -> list[Finding]:
    """Return what is to say about the versions here, given those that the coordinator had."""
    return [_version("fedcomp", coordinator.fedcomp), _version("flwr", coordinator.flwr)]


def _version(package: str, expected: str) -> Finding:
    try:
        installed = version(package)
    except PackageNotFoundError:
        return wrong(package, f"is not installed here; install {expected or 'it'}")
    if not expected:
        return note(package, f"{installed}; site.toml does not say which the coordinator has")
    if installed != expected:
        return wrong(package, f"{installed} is installed, the coordinator has {expected}; install that one")
    return ok(package, f"{installed}, as the coordinator has")


def _programs() -> Finding:
    missing = [name for name in PROGRAMS if shutil.which(name) is None]
    if not missing:
        return ok("programs", "Flower's programs are on the PATH")
    beside = Path(sys.executable).parent
    place = f"export PATH={beside}:$PATH" if (beside / missing[0]).exists() else "install flwr beside fedcomp"
    return wrong(
        "programs", f"{', '.join(missing)} not on the PATH, and the SuperNode would hang without a word; {place}"
    )


def _device(wanted: str) -> Finding:
    what = "device"
    kind, _, number = wanted.partition(":")
    if wanted in ("cpu", "auto"):
        return ok(what, wanted)
    if kind != "cuda" or not (number.isdigit() or not number):
        return wrong(what, f"site.toml asks for {wanted!r}; allowed: auto, cpu, cuda, cuda:1 and so on")
    try:
        done = subprocess.run(
            [sys.executable, "-c", _DEVICES], capture_output=True, text=True, timeout=_SECONDS, check=True
        )
        count, names = (int(done.stdout.splitlines()[0]), done.stdout.splitlines()[1])
    except (OSError, subprocess.SubprocessError, ValueError, IndexError) as error:
        return wrong(
            what, f"torch cannot say which GPUs there are ({type(error).__name__}); reinstall it or the driver"
        )
    if count <= int(number or 0):
        seen = "no GPU" if count == 0 else f"{count} ({names})"
        return wrong(
            what, f"site.toml asks for {wanted!r}, torch sees {seen}; see nvidia-smi, the driver, CUDA_VISIBLE_DEVICES"
        )
    return ok(what, f"{wanted}: {names}")


def _data(profile: SiteProfile, path: Path) -> Finding:
    what = "data"
    if profile.data is None:
        return note(what, "site.toml names none; the run's is used, of which this site takes its part")
    folder = resolve(path, profile.data)
    try:
        found = open_dataset(folder, kind_of(folder))
    except FedcompError as error:
        return wrong(what, str(error))
    except OSError as error:
        return wrong(what, f"{folder} cannot be read: {error.strerror}; is this the SuperNode's user?")
    return ok(what, f"{len(found.train):,} training examples: {found.label}")
