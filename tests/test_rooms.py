"""The architecture, as tests."""

import ast
import re
from collections import defaultdict
from functools import cache
from pathlib import Path

import pytest

import hypersphere
from tools import exported_names

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "hypersphere"
ROOMS = [
    "core",
    "geometry",
    "distributed",
    "engines",
    "losses",
    "heads",
    "pml",
    "optim",
    "backbones",
    "data",
    "pocket",
    "models",
    "plots",
    "evaluation",
    "training",
    "theory",
    "recognition",
    "service",
    "cli",
]
FILES = sorted(SOURCE.rglob("*.py"))

EXPORTED = set(exported_names.names())

INTERFACES = ("core", "data", "plots", "pocket")
"""Rooms that others import from by their `__init__` alone."""

BESIDE_THE_INTERFACE = {
    "hypersphere.core.read_arrays",
    "hypersphere.core.stored_array",
    "hypersphere.data.formats.market",
}
"""But for these: the first needs numpy, which `core` does not load; the second has what re-identification counts by."""

UNPICKLERS = {"data/formats/packs.py": "_PlainUnpickler"}
"""The only file that may import `pickle`, with its one unpickler."""

PICKLERS = {"_pickle", "cloudpickle", "dill", "joblib", "marshal", "pickle", "shelve"}

SAID_BY_THE_FOLDER = {"create", "files"}
"""Names that several rooms have, because the folder says which, such as the files of a protocol."""


def called(path: Path) -> str:
    return path.relative_to(SOURCE).as_posix()


def room_of(path: Path) -> str:
    """The room of a file; an empty string for the files of the package itself."""
    return path.relative_to(SOURCE).parts[0] if path.parent != SOURCE else ""


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def imported(module: ast.Module) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(module):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"a relative import: {ast.unparse(node)}"
            names.add(node.module or "")
    return names


def test_the_rooms_are_the_ones_documented() -> None:
    assert {room_of(path) for path in FILES} - {""} == set(ROOMS)
    assert ", ".join(ROOMS) in (ROOT / "CONTRIBUTING.md").read_text()


def test_a_room_imports_only_from_rooms_before_it() -> None:
    wrong = []
    for path in FILES:
        for name in imported(tree(path)) if room_of(path) else ():
            package, _, rest = name.partition(".")
            room = rest.partition(".")[0]
            if package != "hypersphere" or room == "version":
                continue
            if not room and room_of(path) == "cli":
                continue
            if not room or ROOMS.index(room) > ROOMS.index(room_of(path)):
                wrong.append(f"{called(path)} imports {name}")
    assert not wrong


def test_other_rooms_import_from_a_rooms_interface() -> None:
    """A room's `__init__` is its interface; what only its own files need stays in them."""
    wrong = []
    for path in FILES:
        for name in imported(tree(path)):
            _, room, *rest = *name.split("."), "", ""
            if room in INTERFACES and room != room_of(path) and rest[0] and name not in BESIDE_THE_INTERFACE:
                wrong.append(f"{called(path)} imports {name}")
    assert not wrong


def test_only_the_command_prints_and_nothing_is_evaluated() -> None:
    wrong = []
    for path in FILES:
        for call in (node for node in ast.walk(tree(path)) if isinstance(node, ast.Call)):
            name = ast.unparse(call.func)
            if name in ("eval", "exec") or (name == "print" and room_of(path) != "cli"):
                wrong.append(f"{called(path)}: {ast.unparse(call)}")
    assert not wrong


def unpickling(module: ast.Module, allowed: str | None = None) -> list[str]:
    """What a module has that may unpickle, but for `allowed`: a class that finds no class but those it knows.

    A module with that class may also write pickles and name pickle's instructions and errors.
    """
    found = []
    for node in ast.walk(module):
        if isinstance(node, ast.Import):
            wrong = {alias.name for alias in node.names if alias.name.split(".")[0] in PICKLERS}
            wrong -= {"pickle"} if allowed and all(alias.asname is None for alias in node.names) else set()
        elif isinstance(node, ast.ImportFrom):
            wrong = {node.module or ""} if (node.module or "").split(".")[0] in PICKLERS else set()
        elif isinstance(node, ast.Attribute) and ast.unparse(node).startswith("pickle."):
            known = node.attr.isupper() or node.attr in ("dumps", "UnpicklingError", "_Unpickler", "dispatch")
            wrong = set() if known else {ast.unparse(node)}
        elif isinstance(node, ast.ClassDef) and any("Unpickler" in ast.unparse(base) for base in node.bases):
            methods = {each.name for each in node.body if isinstance(each, ast.FunctionDef)}
            wrong = set() if node.name == allowed and "find_class" in methods else {f"class {node.name}"}
        elif isinstance(node, ast.Call):
            name, options = ast.unparse(node.func), {word.arg: ast.unparse(word.value) for word in node.keywords}
            unsafe = name == "torch.load" and options.get("weights_only") != "True"
            unsafe |= options.get("allow_pickle", "False") != "False" or name == "pickle._Unpickler"
            wrong = {ast.unparse(node)} if unsafe else set()
        else:
            continue
        found += sorted(wrong)
    return found


def test_nothing_unpickles_but_the_unpicklers_named_here() -> None:
    assert set(UNPICKLERS) == {called(path) for path in FILES if "pickle" in imported(tree(path))}
    for path in FILES:
        allowed = UNPICKLERS.get(called(path))
        assert unpickling(tree(path), allowed) == [], called(path)
        assert not allowed or f"class {allowed}(pickle._Unpickler)" in path.read_text()


@pytest.mark.parametrize(
    "text",
    [
        "import pickle",
        "from pickle import _Unpickler",
        "from _pickle import loads",
        "import joblib.numpy_pickle",
        "class Mine(pickle._Unpickler): pass",
        "pickle.load(file)",
        "torch.load(file)",
        "torch.load(file, weights_only=False)",
        "np.load(file, allow_pickle=True)",
    ],
)
def test_what_unpickles_is_noticed(text: str) -> None:
    assert unpickling(ast.parse(text))


@pytest.mark.parametrize(
    "text",
    ["import pickle as p", "class Known(pickle._Unpickler): pass", "pickle._Unpickler(file)", "load = pickle.loads"],
)
def test_a_file_with_an_unpickler_may_not_have_another(text: str) -> None:
    assert unpickling(ast.parse("import pickle\ndata = pickle.dumps(x)"), "Known") == []
    assert unpickling(ast.parse(text), "Known")


def test_no_basename_is_in_two_rooms() -> None:
    """A file of the command is called as its command, and a folder or `SAID_BY_THE_FOLDER` may say which is meant."""
    rooms = defaultdict(set)
    for path in FILES:
        if room_of(path) not in ("", "cli") and path.stem != "__init__":
            rooms[path.stem].add(room_of(path))
    assert {name for name, there in rooms.items() if len(there) > 1} == SAID_BY_THE_FOLDER


def test_no_file_is_longer_than_400_lines() -> None:
    assert not {called(path) for path in FILES if len(path.read_text().splitlines()) > 400}


def positionals(function: ast.FunctionDef) -> int:
    """How many parameters a call may give by position, but for self; a kernel of Triton takes all of its own so."""
    if any("jit" in ast.unparse(decorator) for decorator in function.decorator_list):
        return 0
    names = [each.arg for each in (*function.args.posonlyargs, *function.args.args)]
    return len(names) - (names[:1] in (["self"], ["cls"]))


def test_no_function_has_more_than_six_positional_parameters() -> None:
    functions = [(path, node) for path in FILES for node in ast.walk(tree(path)) if isinstance(node, ast.FunctionDef)]
    wrong = {f"{called(path)}: {function.name}" for path, function in functions if positionals(function) > 6}
    assert not wrong


def unexported(module: ast.Module) -> list[str]:
    """The `hs.name` and `hs.room.name` of a module that `__all__` of the package or of the room does not have.

    mypy takes a file of a room that nobody has imported yet, as in `hs.core.read_arrays`, for an attribute; Python does
    not.
    """
    attributes = (node for node in ast.walk(module) if isinstance(node, ast.Attribute))
    names = {ast.unparse(node) for node in attributes if isinstance(node.value, ast.Name | ast.Attribute)}
    used = {name.replace("hs", "hypersphere", 1) for name in names if re.fullmatch(r"hs\.\w+(\.\w+)?", name)}
    of_rooms = {name for name in used if name.split(".")[1] in ROOMS}
    return sorted(name for name in used - EXPORTED if name.count(".") == 1 or name in of_rooms)


def test_the_package_has_what_is_used_of_it() -> None:
    programs = [path for folder in ("benchmarks", "examples", "notebooks") for path in (ROOT / folder).rglob("*.py")]
    wrong = {str(path): unexported(tree(path)) for path in (*FILES, *programs)}
    assert not {path: names for path, names in wrong.items() if names}
    assert unexported(ast.parse("hs.core.Failure(hs.Head.weight, hs.core.files, hs.heeds, hs.heads.x.y)")) == [
        "hypersphere.core.files",
        "hypersphere.heads.x",
        "hypersphere.heeds",
    ]


def test_mypy_knows_the_names_that_are_loaded_when_they_are_used() -> None:
    """The imports for mypy are those that `__getattr__` makes, which mypy does not see: it would allow any name."""
    module = tree(SOURCE / "__init__.py")
    (unseen,) = (
        node for node in module.body if isinstance(node, ast.If) and ast.unparse(node.test) == "not TYPE_CHECKING"
    )
    assert [node.name for node in unseen.body if isinstance(node, ast.FunctionDef)] == ["__getattr__"]
    (seen,) = (node for node in module.body if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING")
    imports = [node for node in seen.body if isinstance(node, ast.ImportFrom)]
    owners = {alias.name: (node.module or "").partition(".")[2] for node in imports for alias in node.names}
    assert {name: room for name, room in owners.items() if room} == hypersphere._OWNERS
    assert {*owners, "__version__"} == set(hypersphere.__all__)
