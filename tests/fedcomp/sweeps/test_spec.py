from __future__ import annotations

import copy
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

import fedcomp
from fedcomp.errors import ConfigError
from fedcomp.sweeps.cells import cells_of
from fedcomp.sweeps.spec import SweepError, load_sweep, only_task, parse_sweep

ROOT = Path(__file__).resolve().parents[3]
EXAMPLES = ROOT / "examples" / "sweeps"
GOOD = tomllib.loads("""
name = "s"
seeds = [1, 2]
clients = 7
[settings]
num-server-rounds = 3
tau = 0.1
[[tasks]]
name = "one"
task = "emnist"
[[tasks]]
name = "two"
task = "a.b:Two"
clients = 9
settings = { tau = 0.2 }
[arms]
plain = "identity"
grid = { compressor = "eden:block=256", bits = [0.5, 2], error-feedback = "off" }
""")


def changed(path: str, value: object) -> dict[str, Any]:
    content = copy.deepcopy(GOOD)
    *parents, last = path.split("/")
    place: Any = content
    for word in parents:
        place = place[int(word)] if word.isdecimal() else place[word]
    if value is None:
        del place[last]
    else:
        place[last] = value
    return content


def test_a_grid_is_every_arm_on_every_task_with_every_seed() -> None:
    sweep = parse_sweep(GOOD)
    cells = list(cells_of(sweep))
    assert len({cell.name for cell in cells}) == len(cells) == 2 * 3 * 2
    assert [arm.name for arm in sweep.arms] == ["plain", "grid-0.5", "grid-2"]
    # All arms with the first seed come before the second.
    assert [cell.seed for cell in cells] == [1] * 6 + [2] * 6
    last = cells[-1]
    assert last.name == "sweep/s/two/grid-2/seed-2/clients-9"
    assert last.settings["compressor"] == "eden:block=256,bits=2"
    assert last.settings["error-feedback"] == "off"
    assert (last.settings["task"], last.settings["seed"], last.settings["tau"]) == ("a.b:Two", 2, 0.2)
    assert cells[0].settings["tau"] == 0.1
    assert (cells[0].task.clients, cells[0].rounds) == (7, 3)


def test_one_task_needs_no_table() -> None:
    sweep = parse_sweep(
        {"name": "s", "task": "x.y:Tiny:examples=3", "arms": {"a": {"compressor": "eden", "bits": [1]}}}
    )
    (task,) = sweep.tasks
    assert (task.name, task.spec, task.clients) == ("Tiny", "x.y:Tiny:examples=3", 10)
    assert sweep.seeds == (1,)
    assert sweep.arms[0].settings["compressor"] == "eden:bits=1"


@pytest.mark.parametrize(
    ("path", "value", "said"),
    [
        ("nme", 1, "unknown key nme"),
        ("name", "a/b", "name is 'a/b'; give a name of letters"),
        ("name", None, "name is None"),
        ("seeds", [], "seeds is []"),
        ("seeds", [1, 1], "seeds is [1, 1]; give each once"),
        ("seeds", [True], "seeds is [True]"),
        ("clients", 0, "clients is 0"),
        ("task", "emnist", "task and tasks: both are there"),
        ("tasks", None, "task and tasks: neither is there"),
        ("tasks/1/name", "one", "the name 'one' is given twice"),
        ("tasks/1/clients", "9", "tasks[2].clients is '9'"),
        ("tasks/1/seed", 3, "unknown key tasks[2].seed"),
        ("tasks/1/settings/tua", 3, "unknown key tasks[2].settings.tua"),
        ("settings/seed", 3, "settings.seed cannot be set here: write seeds = [1, 2]"),
        ("settings/resume", "x", "settings.resume cannot be set here"),
        ("settings/num-server-rounds", 0, "num-server-rounds is 0"),
        ("settings/num-server-rounds", [3], "settings.num-server-rounds is [3]"),
        ("settings", 3, "settings is 3; give a table"),
        ("arms", {}, "arms is empty"),
        ("arms/plain", 3, "arms.plain is 3"),
        (
            "arms/plain",
            {"5": "x"},
            'arms.plain has no compressor, only 5; give one, such as "eden:bits=1", or [settings]',
        ),
        ("arms/plain", {"compressor": 3}, "arms.plain.compressor is 3"),
        ("arms/grid-2", "identity", "the name 'grid-2' is given twice"),
        ("arms/grid/bits", 2, "arms.grid.bits is 2; give a list"),
        ("arms/grid/bits", ["2"], "arms.grid.bits is ['2']"),
        ("arms/grid/compressor", "eden:bits=2", "bits is in 'eden:bits=2' and in bits = [0.5, 2]"),
        ("arms/grid/mode", "both", "arm grid-0.5: run config: mode is 'both'"),
    ],
)
def test_what_is_wrong_is_named(path: str, value: object, said: str) -> None:
    with pytest.raises(ConfigError) as error:
        parse_sweep(changed(path, value))
    assert said in str(error.value)


def test_a_file_that_is_none_is_named(tmp_path: Path) -> None:
    for name, text, said in (("a.toml", None, "No such file"), ("b.toml", "x =", "write TOML"), ("c.toml", "", "name")):
        path = tmp_path / name
        if text is not None:
            path.write_text(text)
        with pytest.raises(SweepError, match=said) as error:
            load_sweep(path)
        assert str(path) in str(error.value)


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.toml")), ids=lambda path: path.stem)
def test_the_examples_are_right(path: Path) -> None:
    sweep = load_sweep(path)
    for arm in sweep.arms:
        codec = fedcomp.compressor(str(arm.settings["compressor"]))
        # A number at the end of an arm's name is its nominal rate.
        rate = re.search(r"-([\d.]+)$", arm.name)
        if rate and codec.nominal_bits and not arm.name.startswith("topk"):
            assert codec.nominal_bits == pytest.approx(float(rate[1]), rel=0.04)


def test_the_docs_name_all_examples() -> None:
    documented = (ROOT / "docs/sweeps.md").read_text(encoding="utf-8")
    assert EXAMPLES.is_dir()
    assert [path.name for path in EXAMPLES.glob("*.toml") if f"`{path.name}`" not in documented] == []


def test_an_arm_without_a_compressor_has_that_of_all() -> None:
    sweep = parse_sweep(
        {
            "name": "x",
            "task": "emnist",
            "settings": {"compressor": "eden:bits=1"},
            "arms": {"slow": {"learning-rate": 0.001}, "plain": "identity", "other": {"compressor": "sign"}},
        }
    )
    assert [arm.settings["compressor"] for arm in sweep.arms] == ["eden:bits=1", "identity", "sign"]


def test_one_task_can_be_chosen() -> None:
    sweep = parse_sweep(
        {"name": "x", "tasks": [{"task": "emnist"}, {"task": "shakespeare"}], "arms": {"plain": "identity"}}
    )
    assert [task.name for task in only_task(sweep, "shakespeare").tasks] == ["shakespeare"]
    with pytest.raises(SweepError, match="--task mnist: sweep 'x' has emnist, shakespeare"):
        only_task(sweep, "mnist")
