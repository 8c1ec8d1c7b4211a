"""The rules that keep the project in shape, each shown able to fail."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from packaging.requirements import Requirement

import fedcomp

ROOT = Path(__file__).resolve().parents[1]
PRODUCT = ("fedcomp", "server_app", "client_app", "dashboard")

# Who may import what of our own. The longest matching prefix of the importing module decides.
BASE = {"fedcomp.errors", "fedcomp.seeds"}
CODEC = BASE | {"fedcomp.transforms", "fedcomp.quantizers", "fedcomp.coding", "fedcomp.kernels"}
ALLOWED: dict[str, set[str]] = {
    "fedcomp.errors": set(),
    "fedcomp.seeds": set(),
    "fedcomp.home": set(),
    "fedcomp.metrics": set(),
    "fedcomp.processes": set(),
    "fedcomp.app_bundle": set(),
    "fedcomp.wire": BASE,
    "fedcomp.config": BASE,
    "fedcomp.run_config": {"fedcomp.config", *BASE},
    "fedcomp.client_bits": BASE,
    "fedcomp.resume": {"fedcomp.run_config", *BASE},
    "fedcomp.vectors": BASE,
    "fedcomp.transforms": CODEC,
    "fedcomp.quantizers": CODEC,
    "fedcomp.coding": CODEC,
    "fedcomp.kernels": CODEC,
    "fedcomp.kernels.seed_words": BASE | {"fedcomp.kernels"},
    "fedcomp.allocation": CODEC | {"fedcomp.allocation"},
    "fedcomp.compressors": CODEC | {"fedcomp.allocation", "fedcomp.compressors", "fedcomp.config", "fedcomp.wire"},
    "fedcomp.compressors.catalogue": set(),
    "fedcomp.feedback": BASE | {"fedcomp.compressors", "fedcomp.wire"},
    "fedcomp.bench": BASE
    | {"fedcomp.aggregation", "fedcomp.bench", "fedcomp.compressors", "fedcomp.config", "fedcomp.metrics"},
    "fedcomp.bench.textbook": {"fedcomp.bench", "fedcomp.quantizers"},
    "fedcomp.bench.sealing": BASE | {"fedcomp.bench", "fedcomp.compressors", "fedcomp.sealing"},
    "fedcomp.bench.updates": {"fedcomp.tasks"},
    "fedcomp.bench.recipe": {"fedcomp.bench", "fedcomp.tasks", "fedcomp.training"},
    "fedcomp.optim": BASE | {"fedcomp.config", "fedcomp.optim"},
    "fedcomp.training": BASE | {"fedcomp.config", "fedcomp.tasks", "fedcomp.training"},
    "fedcomp.training.settings": {"fedcomp.optim", "fedcomp.run_config", "fedcomp.training"},
    "fedcomp.aggregation": BASE | {"fedcomp.compressors", "fedcomp.wire"},
    "fedcomp.data": BASE | {"fedcomp.data", "fedcomp.home"},
    "fedcomp.tasks": BASE | {"fedcomp.data", "fedcomp.tasks", "fedcomp.config", "fedcomp.home"},
    "fedcomp.sealing": {"fedcomp.errors", "fedcomp.sealing"},
    "fedcomp.downlink": BASE | {"fedcomp.compressors", "fedcomp.feedback", "fedcomp.wire"},
    "fedcomp.flower": BASE
    | {"fedcomp.aggregation", "fedcomp.compressors", "fedcomp.config", "fedcomp.feedback", "fedcomp.flower"}
    | {"fedcomp.vectors"},
    "fedcomp.flower.messages": BASE | {"fedcomp.downlink"},
    "fedcomp.flower.sealed": BASE | {"fedcomp.downlink", "fedcomp.flower.messages", "fedcomp.sealing"},
    "fedcomp.flower.local_run": BASE | {"fedcomp.app_bundle", "fedcomp.config", "fedcomp.flower"},
    "fedcomp.site": BASE | {"fedcomp.sealing", "fedcomp.site"},
    "fedcomp.site.supervisor": BASE | {"fedcomp.processes", "fedcomp.site"},
    "fedcomp.site.check_machine": BASE | {"fedcomp.data", "fedcomp.site"},
    "fedcomp.superlink": BASE | {"fedcomp.config", "fedcomp.processes"},
    "fedcomp.simulation": BASE | {"fedcomp.app_bundle", "fedcomp.config", "fedcomp.superlink"},
    "fedcomp.sweeps": BASE
    | {"fedcomp.config", "fedcomp.home", "fedcomp.resume", "fedcomp.run_config", "fedcomp.sweeps"}
    | {"dashboard.schemas", "dashboard.store"},
    "fedcomp.sweeps.measure": BASE
    | {
        "fedcomp.compressors",
        "fedcomp.run_config",
        "fedcomp.settings_check",
        "fedcomp.sweeps.estimate",
        "fedcomp.tasks",
    }
    | {"fedcomp.training", "fedcomp.vectors"},
    "fedcomp.commands": {"fedcomp", "dashboard"},
    "fedcomp": {"fedcomp"},
    "client_app": {"fedcomp", "client_app"},
    "server_app": {"fedcomp", "server_app"},
    "server_app.reporting": {"fedcomp", "server_app", "dashboard.store"},
    "dashboard": {"dashboard", "fedcomp.errors", "fedcomp.home"},
    "dashboard.compressor_table": {"fedcomp.compressors.catalogue"},
}
FLWR = ("server_app", "client_app", "fedcomp.flower")
TORCHLESS = (
    "dashboard",
    "fedcomp.wire",
    "fedcomp.errors",
    "fedcomp.seeds",
    "fedcomp.config",
    "fedcomp.compressors.catalogue",
    "fedcomp.site",
)


def modules() -> Iterator[tuple[str, Path]]:
    for package in PRODUCT:
        for path in sorted((ROOT / package).rglob("*.py")):
            parts = path.relative_to(ROOT).with_suffix("").parts
            yield ".".join(parts[:-1] if parts[-1] == "__init__" else parts), path


def within(name: str, prefix: str) -> bool:
    return name == prefix or name.startswith(prefix + ".")


def imports(source: str) -> set[str]:
    """Return what the code imports when it runs, names of functions and classes included; type-only imports are not."""
    found: set[str] = set()
    tree = ast.parse(source)
    type_only = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
        for inner in ast.walk(node)
    }
    for node in ast.walk(tree):
        if id(node) in type_only:
            continue
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def violations(name: str, source: str) -> list[str]:
    """Return what module ``name`` imports and must not."""
    allowed = ALLOWED[max((rule for rule in ALLOWED if within(name, rule)), key=len)]
    bad = []
    for target in imports(source):
        top = target.split(".")[0]
        # `import fedcomp` and `from fedcomp import x` go through the lazy front door, which the apps may use.
        if top in PRODUCT and not any(within(target, rule) for rule in allowed) and target != top:
            bad.append(f"{name} imports {target}")
        if top == "flwr" and not any(within(name, rule) for rule in FLWR):
            bad.append(f"{name} imports {target}")
        if top == "torch" and any(within(name, rule) for rule in TORCHLESS):
            bad.append(f"{name} imports {target}")
    return bad


def test_imports_go_one_way() -> None:
    assert [line for name, path in modules() for line in violations(name, path.read_text())] == []


@pytest.mark.parametrize(
    ("name", "source"),
    [
        ("fedcomp.errors", "import fedcomp.seeds"),
        ("fedcomp.seeds", "from fedcomp.errors import ConfigError"),
        ("fedcomp.transforms.hadamard", "from fedcomp.compressors.eden import Eden"),
        ("fedcomp.kernels.seed_words", "from fedcomp.transforms.hadamard import rotate"),
        ("fedcomp.tasks.emnist", "from fedcomp.compressors.registry import compressor"),
        ("fedcomp.vectors", "import flwr"),
        ("fedcomp.simulation", "from flwr.app import Message"),
        ("fedcomp.site.registration", "from flwr.proto.fleet_pb2 import ActivateNodeRequest"),
        ("fedcomp.site.check_machine", "import torch"),
        ("fedcomp.site.profile", "from fedcomp.data.dataset import open_dataset"),
        ("fedcomp.aggregation", "from server_app.rounds import run_round"),
        ("fedcomp.aggregation", "from dashboard.store import RunStore"),
        ("fedcomp.flower.local_run", "from server_app.app import app"),
        ("fedcomp.sweeps.cells", "from dashboard.db import upgrade"),
        ("fedcomp.sweeps.estimate", "from fedcomp.compressors.registry import compressor"),
        ("client_app.app", "from server_app.rounds import run_round"),
        ("server_app.rounds", "from dashboard.store import RunStore"),
        ("server_app.reporting", "from dashboard.db import upgrade"),
        ("dashboard.store", "import torch"),
        ("dashboard.store", "from fedcomp.aggregation import MeanEstimator"),
        ("fedcomp.wire", "def f():\n    import torch.nn"),
    ],
)
def test_a_forbidden_import_is_seen(name: str, source: str) -> None:
    assert violations(name, source)


def test_what_only_types_need_is_allowed() -> None:
    assert violations("fedcomp.seeds", "if TYPE_CHECKING:\n    from fedcomp.errors import ConfigError") == []


def forbidden_code(source: str) -> list[str]:
    """Return uses of assert, pickle, eval, exec, print and bare except."""
    bad = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Assert):
            bad.append("assert")
        if isinstance(node, ast.ExceptHandler) and node.type is None:
            bad.append("bare except")
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("eval", "exec", "print"):
            bad.append(node.func.id)
    bad += [name for name in imports(source) if name.split(".")[0] in ("pickle", "cPickle", "dill", "cloudpickle")]
    return bad


def test_the_product_has_no_forbidden_code() -> None:
    assert {str(path): bad for _, path in modules() if (bad := forbidden_code(path.read_text()))} == {}


@pytest.mark.parametrize(
    "source",
    ["assert x", "import pickle", "from pickle import loads", "eval('1')", "print(1)", "try:\n    x\nexcept:\n    y"],
)
def test_forbidden_code_is_seen(source: str) -> None:
    assert forbidden_code(source)


def test_files_are_short_and_folders_flat() -> None:
    tracked = [path for top in (*PRODUCT, "tests", "examples") for path in (ROOT / top).rglob("*.py")]
    assert [str(path) for path in tracked if len(path.read_text().splitlines()) > 400] == []
    for package in PRODUCT:
        for path in (ROOT / package).rglob("*.py"):
            # A package, its folder, and below that only the versions folder that Alembic wants.
            depth = len(path.relative_to(ROOT).parts) - 1
            assert depth <= (3 if "versions" in path.parts else 2), path
    assert not [path for path in tracked if path.stem == "utils"]


def test_packages_hold_only_what_an_app_bundle_carries() -> None:
    # The dashboard's pages stay where it runs.
    pages = [ROOT / "dashboard" / name for name in ("templates", "static")]
    others = [
        str(path)
        for package in PRODUCT
        for path in (ROOT / package).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts and path.suffix not in (".py", ".toml", ".md", ".json")
        if not any(path.is_relative_to(folder) for folder in pages)
    ]
    assert others == []


def requirements() -> list[Requirement]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    texts = project["dependencies"] + [text for extra in project["optional-dependencies"].values() for text in extra]
    return [Requirement(text) for text in texts]


def test_flower_installs_nothing() -> None:
    # `flwr run` lets uv install the app's dependencies, without our pins, unless each is overridden by one that is
    # never needed.
    overrides = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["uv"]["override-dependencies"]
    never = {Requirement(text).name for text in overrides if "python_version < '0'" in text}
    assert never == {requirement.name for requirement in requirements()}


def test_every_dependency_is_pinned() -> None:
    lines = [line for line in (ROOT / "constraints.txt").read_text().splitlines() if line and not line.startswith("#")]
    pins = {Requirement(line).name.lower().replace("_", "-"): Requirement(line) for line in lines}
    for requirement in requirements():
        pin = pins[requirement.name.lower()]
        (version,) = [item.version for item in pin.specifier if item.operator == "=="]
        assert requirement.specifier.contains(version), requirement
    assert str(pins["torch"].specifier) == "==2.13.0"


def test_flower_never_rewrites_our_settings() -> None:
    flwr = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["flwr"]
    assert "federations" not in flwr


def test_there_is_one_version() -> None:
    assert tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"] == fedcomp.__version__


def test_public_names_resolve_and_are_all_that_is_exported() -> None:
    for name in fedcomp.__all__:
        assert getattr(fedcomp, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        fedcomp.nothing  # noqa: B018
    assert set(fedcomp.__all__) <= set(dir(fedcomp))


def test_errors_are_there_without_an_import_of_their_own() -> None:
    code = "import fedcomp; fedcomp.errors.SeedMismatch; fedcomp.metrics.vnmse; fedcomp.wire.pack"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_public_functions_say_what_they_do() -> None:
    for name in fedcomp.__all__:
        assert re.search(r"\w", getattr(fedcomp, name).__doc__ or ""), name
