"""Finds the task that a spec string names."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType

from fedcomp.config import Value, parse_spec, reject_unknown
from fedcomp.errors import ConfigError
from fedcomp.tasks.base import Task
from fedcomp.tasks.emnist import EmnistTask
from fedcomp.tasks.shakespeare import ShakespeareTask

_TASKS: dict[str, type[Task]] = {task.name: task for task in (EmnistTask, ShakespeareTask)}


def available_tasks() -> list[str]:
    """Return the names of the built-in tasks, sorted."""
    return sorted(_TASKS)


def load_task(spec: str, *, data: Path | None = None) -> Task:
    """Map a spec string to a task.

    ``"emnist"`` and ``"emnist:examples-per-client=100"`` name a built-in task. ``"package.module:ClassName"`` names a
    subclass of :class:`Task` in a module that can be imported, ``"package.module"`` does so when the module has one
    such class or an attribute ``TASK``; options may follow after a colon: ``"package.module:ClassName:key=value"``.
    The option ``key-name`` is the class's argument ``key_name``.

    Parameters
    ----------
    data
        Folder of a prepared data set that takes the place of the spec's own ``data``, if any.

    Raises
    ------
    ConfigError
        When the spec is malformed, the name is unknown, the module cannot be imported or has no such class, or an
        option is unknown, missing or refused by the task, or the task takes no ``data`` and some was given.
    """
    if not isinstance(spec, str):
        raise ConfigError(f"task {spec!r} is a {type(spec).__name__}; give a string such as 'emnist'")
    if "." in spec.partition(":")[0]:
        return _load_dotted(spec.strip(), data)
    parsed = parse_spec(spec)
    if parsed.name not in _TASKS:
        raise ConfigError(
            f"unknown task {parsed.name!r}; available: {', '.join(available_tasks())}, or your own as "
            "package.module:ClassName"
        )
    return _build(_TASKS[parsed.name], parsed.name, parsed.options, data)


def _load_dotted(spec: str, data: Path | None) -> Task:
    module_name, *rest = spec.split(":", 2)
    class_name = rest.pop(0) if rest and "=" not in rest[0] else None
    for name in (module_name, class_name if class_name is not None else module_name):
        parse_spec(name)  # raises unless it is a name
    options = parse_spec(f"{module_name}:{':'.join(rest)}").options if rest else {}
    try:
        module = importlib.import_module(module_name)
    except ImportError as error:
        raise ConfigError(f"task {spec!r}: cannot import {module_name!r} ({error}); is it installed here?") from error
    found = _only_task(module, spec) if class_name is None else getattr(module, class_name, None)
    if isinstance(found, Task):
        if options:
            raise ConfigError(f"task {spec!r}: {class_name or 'TASK'} is an object and takes no options; name a class")
        if data is not None:
            raise ConfigError(f"task {spec!r} is an object and takes no data set of a site's own; name a class")
        return found
    if isinstance(found, type) and issubclass(found, Task) and not inspect.isabstract(found):
        return _build(found, spec, options, data)
    classes = ", ".join(_task_classes(module)) or "none"
    raise ConfigError(f"task {spec!r}: {class_name or 'TASK'} is not a complete Task class; the module has: {classes}")


def _only_task(module: ModuleType, spec: str) -> object:
    if hasattr(module, "TASK"):
        return module.TASK
    classes = _task_classes(module)
    if len(classes) != 1:
        names = ", ".join(classes) or "none"
        raise ConfigError(f"task {spec!r}: the module must have one Task class or TASK to choose; it has: {names}")
    return next(iter(classes.values()))


def _task_classes(module: ModuleType) -> dict[str, type[Task]]:
    """Return the complete Task classes that the module defines itself, by name."""
    return {
        name: value
        for name, value in vars(module).items()
        if inspect.isclass(value) and issubclass(value, Task) and not inspect.isabstract(value)
        if value.__module__ == module.__name__
    }


def _build(task_class: type[Task], spec_name: str, options: Mapping[str, Value], data: Path | None) -> Task:
    parameters = inspect.signature(task_class).parameters
    takes_anything = any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values())
    if not takes_anything:
        reject_unknown(spec_name, options, {name.replace("_", "-"): None for name in parameters})
    for name, parameter in parameters.items():
        required = parameter.default is parameter.empty and parameter.kind in (
            parameter.KEYWORD_ONLY,
            parameter.POSITIONAL_OR_KEYWORD,
        )
        if required and name.replace("_", "-") not in options:
            raise ConfigError(f"task {spec_name}: option {name.replace('_', '-')!r} is missing")
    arguments: dict[str, object] = {key.replace("-", "_"): value for key, value in options.items()}
    if data is not None:
        if "data" not in parameters and not takes_anything:
            raise ConfigError(f"task {spec_name} has no option 'data', so a site cannot bring its own ({data})")
        arguments["data"] = data
    return task_class(**arguments)
