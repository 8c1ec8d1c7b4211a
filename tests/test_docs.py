"""What a user can type is documented, and what is documented can be typed."""

from __future__ import annotations

import doctest
import importlib
import inspect
import re
import tomllib
from pathlib import Path

import pytest
import typer.main

import client_app.site
from fedcomp.commands.main import app
from fedcomp.run_config import RunConfig
from fedcomp.tasks.emnist import EmnistTask
from fedcomp.tasks.prepared import PreparedExamples
from fedcomp.tasks.shakespeare import ShakespeareTask
from fedcomp.tasks.synthetic_characters import SyntheticCharacters

ROOT = Path(__file__).resolve().parents[1]
CONFIGURATION = (ROOT / "docs" / "configuration.md").read_text()
README = (ROOT / "README.md").read_text()
COMMANDS = typer.main.get_group(app).commands


def rows(text: str) -> dict[str, str]:
    """Return the first two cells of every table row, backticks removed."""
    found = re.findall(r"^\| `([^`]+)` \| (.+?) \|", text, flags=re.MULTILINE)
    # The first row counts: a site has some settings of the same name.
    return {key: default.strip("`") for key, default in reversed(found)}


@pytest.mark.parametrize("key", RunConfig().to_mapping())
def test_every_setting_is_documented_with_its_default(key: str) -> None:
    value = RunConfig().to_mapping()[key]
    written = f'"{value}"' if isinstance(value, str) else str(value).lower()
    assert rows(CONFIGURATION).get(key) == written


def test_every_option_of_the_task_is_documented_with_its_default() -> None:
    section = CONFIGURATION.split("### Options of the task `emnist`")[1].split("### ")[0]
    synthetic, prepared = section.split("Of prepared data")
    found = rows(synthetic)
    for name, parameter in inspect.signature(EmnistTask).parameters.items():
        assert name.replace("_", "-") in found | rows(prepared)
        if parameter.default is not None:
            assert found[name.replace("_", "-")] == str(parameter.default)
    for name, parameter in inspect.signature(SyntheticCharacters).parameters.items():
        assert found[name.replace("_", "-")] == str(parameter.default)
    for name, parameter in inspect.signature(PreparedExamples).parameters.items():
        if parameter.kind is parameter.KEYWORD_ONLY:
            default = rows(prepared)[name.replace("_", "-")]
            assert parameter.default is None or default == str(parameter.default)


def test_every_option_of_the_text_task_is_documented() -> None:
    found = rows(CONFIGURATION.split("### Options of the task `shakespeare`")[1].split("### ")[0])
    parameters = inspect.signature(ShakespeareTask).parameters
    assert found.keys() == {name.replace("_", "-") for name in parameters}
    for name in ("data", "model", "partition"):
        assert found[name] == parameters[name].default


def test_every_setting_of_a_site_is_documented() -> None:
    source = inspect.getsource(client_app.site)
    keys = set(re.findall(r"node_config(?:\.get\(|\[)\"([a-z-]+)\"", source)) | set(client_app.site.NUMBERS)
    place, limits = {"partition-id", "num-partitions", "site", "device"}, {"bits", "max-bits", "uplink-mbps"}
    assert keys == place | limits | {"data", "profile", "sealing", "show-sent"}
    section = CONFIGURATION.split("### A site's own settings")[1].split("###")[0]
    assert set(re.findall(r"^\| `([^`]+)` \|", section, flags=re.MULTILINE)) == keys


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_and_option_is_documented(name: str) -> None:
    assert f"fedcomp {name}" in CONFIGURATION
    for parameter in COMMANDS[name].params:
        for option in parameter.opts:
            if option.startswith("--"):
                assert option in CONFIGURATION, f"{name} {option}"


def test_documented_commands_exist() -> None:
    for text in (README, CONFIGURATION):
        for name in re.findall(r"`fedcomp ([a-z]+)", text):
            assert name in COMMANDS


def test_the_readme_begins_with_the_two_commands() -> None:
    first = README.split("```")[1]
    assert "make demo" in first
    assert "make test" in first


def test_make_targets_of_the_documents_exist() -> None:
    makefile = (ROOT / "Makefile").read_text()
    targets = set(re.findall(r"^([a-z-]+):", makefile, flags=re.MULTILINE))
    for name in ("README.md", "CONTRIBUTING.md", ".ci/run"):
        wanted = set(re.findall(r"^\s*make ([a-z-]+)", (ROOT / name).read_text(), flags=re.MULTILINE))
        assert wanted, name
        assert wanted <= targets


def test_every_target_is_in_make_help() -> None:
    makefile = (ROOT / "Makefile").read_text()
    (phony,) = re.findall(r"^\.PHONY: (.+)$", makefile, flags=re.MULTILINE)
    for target in phony.split():
        assert re.search(rf"^{target}:.*## \w", makefile, flags=re.MULTILINE), target


def test_links_between_documents_lead_somewhere() -> None:
    for document in [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")]:
        for target in re.findall(r"\]\((?!https?://)([^)#]+)", document.read_text()):
            assert (document.parent / target).exists(), f"{document.name}: {target}"


def test_the_spec_strings_of_the_documents_parse() -> None:
    import fedcomp

    for text in (README, CONFIGURATION):
        for spec in re.findall(r"['\"`](eden:[a-z]+=[^'\"`]+)['\"`]", text):
            if "…" not in spec:
                fedcomp.compressor(spec)


def test_the_changelog_names_the_version() -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert f"## {version} " in (ROOT / "CHANGELOG.md").read_text()


def test_the_python_of_the_readme_runs_and_prints_what_it_says(capsys: pytest.CaptureFixture[str]) -> None:
    blocks = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)
    assert blocks
    for block in blocks:
        exec(compile(block, "README.md", "exec"), {})  # noqa: S102 - the README's own lines
        printed = capsys.readouterr().out
        for promised in re.findall(r"print\(.*\)  # (.+)", block):
            assert promised in printed


@pytest.mark.parametrize("path", sorted((ROOT / "fedcomp").rglob("*.py")), ids=lambda path: str(path.relative_to(ROOT)))
def test_examples_in_docstrings_are_true(path: Path) -> None:
    parts = path.relative_to(ROOT).with_suffix("").parts
    module = importlib.import_module(".".join(parts[:-1] if parts[-1] == "__init__" else parts))
    assert doctest.testmod(module, optionflags=doctest.ELLIPSIS).failed == 0
