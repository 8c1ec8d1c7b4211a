"""The sweep file: TOML in, a checked grid of tasks, arms and seeds out."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from fedcomp.config import Value, parse_spec
from fedcomp.errors import ConfigError, FedcompError
from fedcomp.run_config import RunConfig

DEFAULT_CLIENTS = 10
_TOP = ("name", "task", "tasks", "seeds", "clients", "settings", "arms")
_TASK = ("name", "task", "clients", "settings")
_ELSEWHERE = {
    "name": "runs are named after the sweep",
    "resume": "a sweep resumes its runs by itself",
    "task": "write task = … or [[tasks]]",
    "seed": "write seeds = [1, 2]",
}
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


class SweepError(FedcompError, ValueError):
    """A sweep file cannot be read or says something impossible; the message names the key and what is allowed."""


@dataclass(frozen=True)
class Arm:
    """One way to compress.

    Attributes
    ----------
    name
        As the tables call it.
    settings
        What it sets of a run, ``compressor`` at least.
    """

    name: str
    settings: Mapping[str, Value]


@dataclass(frozen=True)
class SweepTask:
    """One task with its clients.

    Attributes
    ----------
    name, spec
        As the tables call it, and the run's ``task``.
    clients
        Number of simulated clients.
    settings
        What it sets of a run, before the arm does.
    """

    name: str
    spec: str
    clients: int
    settings: Mapping[str, Value]


@dataclass(frozen=True)
class Sweep:
    """A grid: every arm on every task with every seed."""

    name: str
    tasks: tuple[SweepTask, ...]
    arms: tuple[Arm, ...]
    seeds: tuple[int, ...]


def load_sweep(path: Path) -> Sweep:
    """Read a sweep file.

    Raises
    ------
    SweepError
        When it cannot be read, or naming the key that is wrong, its value and what is allowed.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise SweepError(f"{path}: {error}; give a sweep file, such as one of examples/sweeps") from error
    try:
        content = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise SweepError(f"{path}: {error}; write TOML as docs/sweeps.md shows it") from error
    try:
        return parse_sweep(content)
    except ConfigError as error:
        raise SweepError(f"{path}: {error}") from error


def only_task(sweep: Sweep, name: str) -> Sweep:
    """Return the sweep with one of its tasks; raises SweepError naming those there are."""
    found = tuple(task for task in sweep.tasks if task.name == name)
    if not found:
        raise SweepError(f"--task {name}: sweep {sweep.name!r} has {', '.join(task.name for task in sweep.tasks)}")
    return replace(sweep, tasks=found)


def parse_sweep(content: Mapping[str, Any]) -> Sweep:
    """Check what a sweep file says.

    Raises
    ------
    ConfigError
        Naming the key that is wrong, its value and what is allowed.
    """
    _only("", content, _TOP)
    name = _name("name", content.get("name"))
    seeds = content.get("seeds", [1])
    if not isinstance(seeds, list) or not seeds or any(type(seed) is not int or seed < 0 for seed in seeds):
        raise ConfigError(f"seeds is {seeds!r}; give a list of whole numbers from 0, such as [1, 2, 3]")
    if len(set(seeds)) < len(seeds):
        raise ConfigError(f"seeds is {seeds!r}; give each once")
    common = _settings("settings", content.get("settings", {}))
    arms = _arms(_table("arms", content.get("arms", {})), common)
    sweep = Sweep(name, _tasks(content, common), arms, tuple(seeds))
    for task in sweep.tasks:
        for arm in sweep.arms:
            try:
                RunConfig.from_mapping({**task.settings, **arm.settings})
            except ConfigError as error:
                raise ConfigError(f"task {task.name}, arm {arm.name}: {error}") from error
    return sweep


def _tasks(content: Mapping[str, Any], common: Mapping[str, Value]) -> tuple[SweepTask, ...]:
    if ("task" in content) == ("tasks" in content):
        both = "both are there" if "task" in content else "neither is there"
        raise ConfigError(f'task and tasks: {both}; give task = "emnist", or one [[tasks]] for each of several')
    clients = content.get("clients", DEFAULT_CLIENTS)
    entries = content.get("tasks", [{"task": content.get("task")}])
    if not isinstance(entries, list) or not entries:
        raise ConfigError(f"tasks is {entries!r}; write [[tasks]] with name, task, clients and settings")
    found = []
    for index, entry in enumerate(entries, start=1):
        where = "" if "task" in content else f"tasks[{index}]."
        _only(where.rstrip("."), _table(where or "task", entry), _TASK)
        spec = entry.get("task")
        if not isinstance(spec, str) or not spec:
            raise ConfigError(f'{where}task is {spec!r}; give a task such as "emnist:examples-per-client=100"')
        count = entry.get("clients", clients)
        if type(count) is not int or count < 1:
            raise ConfigError(f"{where}clients is {count!r}; give a whole number from 1")
        settings = {**common, **_settings(f"{where}settings", entry.get("settings", {}))}
        found.append(SweepTask(_name(f"{where}name", entry.get("name", _short(spec))), spec, count, settings))
    _once("tasks", [task.name for task in found])
    return tuple(found)


def _arms(table: Mapping[str, Any], common: Mapping[str, Value]) -> tuple[Arm, ...]:
    if not table:
        raise ConfigError('arms is empty; write [arms] with lines such as eden-1 = "eden:bits=1"')
    found = []
    for key, value in table.items():
        name = _name("arms", key)
        if isinstance(value, str):
            found.append(Arm(name, {"compressor": value}))
            continue
        usual = {"compressor": common["compressor"]} if "compressor" in common else {}
        settings = {**usual, **_table(f"arms.{name}", value)}
        if "compressor" not in settings:
            raise ConfigError(
                f"arms.{name} has no compressor, only {', '.join(settings) or 'nothing'}; give one, such as "
                f'"eden:bits=1", or [settings] one for all, and write a name with a dot in quotes: "{name}.5" = …'
            )
        bits = settings.pop("bits", None)
        checked = _settings(f"arms.{name}", settings, also=("bits",))
        spec = checked.get("compressor")
        if not isinstance(spec, str):
            raise ConfigError(f'arms.{name}.compressor is {spec!r}; give a spec such as "eden:bits=1"')
        found += [Arm(name, checked)] if bits is None else _grid(name, spec, bits, checked)
    _once("arms", [arm.name for arm in found])
    return tuple(found)


def _grid(name: str, spec: str, bits: object, settings: Mapping[str, Value]) -> list[Arm]:
    """Make one arm for each rate of a compressor."""
    parsed = parse_spec(spec)
    if "bits" in parsed.options:
        raise ConfigError(f"arms.{name}: bits is in {spec!r} and in bits = {bits!r}; give it once")
    if not isinstance(bits, list) or not bits or any(type(rate) not in (int, float) for rate in bits):
        raise ConfigError(f"arms.{name}.bits is {bits!r}; give a list of numbers, such as [0.5, 1, 2]")
    joint = "," if parsed.options else ":"
    return [Arm(f"{name}-{rate:g}", {**settings, "compressor": f"{spec}{joint}bits={rate:g}"}) for rate in bits]


def _settings(where: str, value: object, also: Collection[str] = ()) -> Mapping[str, Value]:
    table = _table(where, value)
    allowed = [key for key in RunConfig().to_mapping() if key not in _ELSEWHERE] + list(also)
    for key in table:
        if key in _ELSEWHERE:
            raise ConfigError(f"{where}.{key} cannot be set here: {_ELSEWHERE[key]}")
    _only(where, table, allowed)
    for key, item in table.items():
        if not isinstance(item, Value):
            raise ConfigError(f"{where}.{key} is {item!r}; give one text, number or truth value")
    return table


def _table(where: str, value: object) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise ConfigError(f"{where} is {value!r}; give a table of keys and values")
    return value


def _only(where: str, table: Mapping[str, Any], allowed: Collection[str]) -> None:
    for key in table:
        if key not in allowed:
            name = f"{where}.{key}" if where else key
            raise ConfigError(f"unknown key {name} (value {table[key]!r}); allowed: {', '.join(sorted(allowed))}")


def _name(where: str, value: object) -> str:
    if not isinstance(value, str) or not _NAME.fullmatch(value):
        raise ConfigError(f"{where} is {value!r}; give a name of letters, digits, dots, hyphens and underscores")
    return value


def _once(where: str, names: list[str]) -> None:
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ConfigError(f"{where}: the name {twice[0]!r} is given twice; give each a name of its own")


def _short(spec: str) -> str:
    """Return what a task is called when nobody says: ``emnist``, or the last word of a dotted path."""
    words = [word for word in spec.split(":") if "=" not in word]
    return words[-1].rpartition(".")[2] if words else spec
