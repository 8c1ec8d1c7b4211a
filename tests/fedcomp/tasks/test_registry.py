from __future__ import annotations

from pathlib import Path

import pytest

from fedcomp.data.errors import MissingData
from fedcomp.data.sources import prepare
from fedcomp.errors import ConfigError
from fedcomp.tasks.base import Task
from fedcomp.tasks.emnist import EmnistTask
from fedcomp.tasks.registry import available_tasks, load_task
from tests.support.femnist_forms import characters, write_leaf

TASK_CLASS = """
class {name}(Task):
    name = "mine"
    data_label = "nothing"

    def __init__(self, *, {argument}):
        self.size = size

    def build_model(self, *, seed): ...
    def client_examples(self, partition_id, num_partitions, *, seed): ...
    def test_examples(self, *, seed): ...
    def loss(self, outputs, targets): ...
"""


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> str:
    """Return the name of a package, new for each test, with one module per form of naming a task."""
    name = f"userpackage_{abs(hash(request.node.name))}"
    folder = tmp_path / name
    folder.mkdir()
    modules = {
        "__init__": "",
        "one": TASK_CLASS.format(name="MyTask", argument="size=3"),
        "two": TASK_CLASS.format(name="A", argument="size=3") + TASK_CLASS.format(name="B", argument="size=3"),
        "named": TASK_CLASS.format(name="A", argument="size=3") + "class B(A): pass\nTASK = B(size=8)\n",
        "imports": f"from {name}.one import MyTask\nclass Own(MyTask): pass\n",
        "needs": TASK_CLASS.format(name="MyTask", argument="size"),
        "broken": "import a_module_that_does_not_exist\n",
        "abstract": "class Half(Task): pass\nNUMBER = 5\n",
        "open": TASK_CLASS.format(name="MyTask", argument="size=3, **rest"),
    }
    for module, text in modules.items():
        (folder / f"{module}.py").write_text("from fedcomp.tasks.base import Task\n" + text)
    monkeypatch.syspath_prepend(tmp_path)
    return name


def size(task: Task) -> object:
    return vars(task)["size"]


def test_available_tasks() -> None:
    assert available_tasks() == ["emnist", "shakespeare"]


def test_emnist_by_name() -> None:
    assert isinstance(load_task("emnist"), EmnistTask)
    assert load_task(" emnist ").name == "emnist"


def test_options_reach_the_task() -> None:
    task = load_task(
        "emnist:examples-per-client=5,writers-per-client=2,dirichlet-alpha=1,test-examples=4,test-writers=3"
    )
    assert isinstance(task, EmnistTask)
    assert task.client_writers(1, 2) == ["train-2", "train-3"]
    assert len(task.client_examples(1, 2, seed=1)) == 5
    assert len(task.test_examples(seed=1)) == 4
    assert len(task.test_writers()) == 3


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("mnist", "unknown task 'mnist'; available: emnist, shakespeare.*package.module:ClassName"),
        ("emnist:clients=3", "unknown option 'clients'.*allowed: data, dirichlet-alpha, examples-per-client, model"),
        ("emnist:examples_per_client=3", "unknown option 'examples_per_client'"),
        ("emnist:examples-per-client=no", "examples-per-client = 'no'; give an integer from 1"),
        ("emnist:", "is not key=value"),
        ("", "is not a name"),
        ("no_such_package.tasks:Mine", "cannot import 'no_such_package.tasks'"),
        ("fedcomp.tasks.emnist:Nothing", "Nothing is not a complete Task class; the module has: EmnistTask"),
        ("fedcomp.tasks.emnist:ConfigError", "ConfigError is not a complete Task class"),
        ("fedcomp.tasks.base:Task", "Task is not a complete Task class; the module has: none"),
        ("fedcomp.errors", "must have one Task class or TASK to choose; it has: none"),
        ("fedcomp.:X", "cannot import"),
        (".relative:X", "not a name"),
        ("fedcomp.tasks.emnist:", "not a name"),
        ("fedcomp.tasks.emnist:EmnistTask:", "is not key=value"),
    ],
)
def test_errors_name_what_is_allowed(spec: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        load_task(spec)


def test_a_spec_must_be_text() -> None:
    with pytest.raises(ConfigError, match="give a string"):
        load_task(5)  # type: ignore[arg-type]


def test_dotted_paths(package: str) -> None:
    assert size(load_task(f"{package}.one:MyTask")) == 3
    assert size(load_task(f"{package}.one:MyTask:size=5")) == 5
    assert size(load_task(f"{package}.one")) == 3
    assert size(load_task(f"{package}.one:size=6")) == 6
    assert size(load_task(f"{package}.two:B:size=x:y")) == "x:y"
    assert type(load_task(f"{package}.imports")).__name__ == "Own"
    assert size(load_task(f"{package}.named")) == 8
    assert size(load_task(f"{package}.named:TASK")) == 8
    assert size(load_task(f"{package}.open:MyTask:size=1,more=2")) == 1


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("two", "it has: A, B"),
        ("one:MyTask:sise=5", "unknown option 'sise'.*allowed: size"),
        ("needs:MyTask", "option 'size' is missing"),
        ("broken:MyTask", "cannot import .*a_module_that_does_not_exist"),
        ("abstract:Half", "Half is not a complete Task class; the module has: none"),
        ("abstract:NUMBER", "NUMBER is not a complete Task class"),
        ("named:TASK:size=5", "takes no options"),
        ("absent:MyTask", "cannot import"),
    ],
)
def test_errors_of_dotted_paths(package: str, spec: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        load_task(f"{package}.{spec}")


def test_a_site_brings_its_own_data(package: str, tmp_path: Path, fedcomp_home: Path) -> None:
    for train, characters_of in (("train", {"a": 30, "b": 30}), ("test", {"c": 20})):
        write_leaf(tmp_path / "leaf" / train / "0.json", characters(characters_of, seed=1))
    prepare("emnist", str(tmp_path / "leaf"), name="ours", replace=False)
    folder = fedcomp_home / "data" / "ours"
    for spec in ("emnist", "emnist:data=not-here,examples-per-client=60"):
        task = load_task(spec, data=folder)
        assert len(task.client_examples(0, 1, seed=1)) == 60
        assert "FEMNIST" in task.data_label
    with pytest.raises(ConfigError, match=r"writers-per-client = 2 applies to data=synthetic, this is data=.*ours"):
        load_task("emnist:writers-per-client=2", data=folder)
    with pytest.raises(MissingData, match="no prepared data set 'theirs'"):
        load_task("shakespeare", data=folder.with_name("theirs"))
    with pytest.raises(ConfigError, match=r"has no option 'data', so a site cannot bring its own"):
        load_task(f"{package}.one:MyTask", data=folder)
    with pytest.raises(ConfigError, match="is an object and takes no data set of a site's own"):
        load_task(f"{package}.named:TASK", data=folder)
    assert vars(load_task(f"{package}.open:MyTask", data=folder))["size"] == 3
