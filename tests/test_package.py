"""The source distribution and the wheel have what the library needs, and the wheel runs in an empty environment.

So does that of the laboratory, beside it.
"""

import os
import shutil
import subprocess
import sys
import tarfile
import venv
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from hypersphere import __version__

ROOT = Path(__file__).parents[1]
NEEDED = ("pyproject.toml", "MANIFEST.in", "README.md", "CHANGELOG.md", "CITATION.cff", "SECURITY.md", "LICENSE")

SMALL_DEMO = """
from pathlib import Path
from hypersphere.cli.demo import run_demo
from hypersphere.training import DemoExtent
run_demo(Path("demo"), 0, DemoExtent(steps=2, people=12, pairs=600))
"""

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


def run(*words: str | Path, folder: Path, status: int = 0) -> str:
    """What a program that ends with a status wrote: its output, or where it failed what is wrong."""
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    result = subprocess.run(
        [str(word) for word in words], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    assert result.returncode == status, result.stdout[-2000:] + result.stderr[-2000:]
    return result.stderr if status else result.stdout


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with both distributions, made from a copy of the tree: the wheel from what the other has."""
    build = pytest.importorskip("build.__main__", reason="needs the package build")  # a folder build/ is no package
    tree, out = tmp_path_factory.mktemp("tree"), tmp_path_factory.mktemp("dist")
    rubbish = shutil.ignore_patterns("__pycache__", "*.egg-info", "build")
    for name in NEEDED:
        shutil.copy(ROOT / name, tree)
    shutil.copytree(ROOT / "src", tree / "src", ignore=rubbish)
    shutil.copytree(ROOT / "papers", tree / "papers", ignore=rubbish, symlinks=True)
    place = Path(build.__file__).parents[1]
    program = f"import runpy, sys; sys.path.append({str(place)!r}); runpy.run_module('build', run_name='__main__')"
    for project in (tree, tree / "papers"):
        run(sys.executable, "-c", program, "--no-isolation", "--outdir", out, project, folder=tree)
    return out


def files_of_the_package(source: Path, package: str) -> Iterator[str]:
    """Every file of a package, those behind links included."""
    for folder, _, names in os.walk(source / package, followlinks=True):
        for name in names:
            if "__pycache__" not in folder and not name.endswith(".pyc"):
                yield (Path(folder) / name).relative_to(source).as_posix()


def test_both_have_every_file_of_the_package(built: Path) -> None:
    expected = set(files_of_the_package(ROOT / "src", "hypersphere"))
    assert {Path(name).suffix for name in expected} >= {".py", ".toml", ".css", ".js", ".typed"}
    (wheel,) = built.glob("hypersphere_learn*.whl")
    with zipfile.ZipFile(wheel) as archive:
        assert {name for name in archive.namelist() if ".dist-info/" not in name} == expected
    assert wheel.stat().st_size < 8_000_000
    (source,) = built.glob("hypersphere_learn*.tar.gz")
    with tarfile.open(source) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {f"src/{name}" for name in expected} <= names
    assert set(NEEDED) <= names
    assert not {name for name in names if name.startswith("tests/")}
    assert __version__ in wheel.name
    assert __version__ in source.name


def test_the_laboratory_has_every_file_of_its_own(built: Path) -> None:
    expected = set(files_of_the_package(ROOT / "papers" / "src", "hypersphere_papers"))
    assert {Path(name).suffix for name in expected} == {".py", ".toml", ".json"}
    (wheel,) = built.glob("hypersphere_papers*.whl")
    with zipfile.ZipFile(wheel) as archive:
        assert {name for name in archive.namelist() if ".dist-info/" not in name} == expected
    assert f"-{__version__}-" in wheel.name


def test_the_wheel_runs_in_an_empty_environment(built: Path, tmp_path: Path) -> None:
    """The core dependencies are those that are installed here; hypersphere itself comes from the wheel."""
    home = tmp_path / "venv"
    venv.create(home, with_pip=False)
    wheel, papers = (next(built.glob(f"{name}*.whl")) for name in ("hypersphere_learn", "hypersphere_papers"))
    pip = (sys.executable, "-m", "pip", "--python", home / "bin" / "python")
    run(*pip, "install", "--quiet", "--no-deps", "--no-index", wheel, folder=tmp_path)
    (packages,) = (home / "lib").glob("python*/site-packages")
    core = tmp_path / "core"
    core.mkdir()
    for path in Path(torch.__file__).parents[1].iterdir():
        if not path.name.startswith(("hypersphere", "__editable__")):
            (core / path.name).symlink_to(path)
    (packages / "core.pth").write_text(f"{core}\n")
    command = home / "bin" / "hypersphere"
    assert __version__ in run(command, "--version", folder=tmp_path)
    where = run(home / "bin" / "python", "-c", "import hypersphere; print(hypersphere.__file__)", folder=tmp_path)
    assert Path(where.strip()).is_relative_to(home)
    assert "pocket/faces" in run(command, "train", "--list", folder=tmp_path)
    assert "scale" in run(command, "advise", "--classes", "1000", "--dim", "64", folder=tmp_path)
    program = tmp_path / "small_demo.py"
    program.write_text(SMALL_DEMO)
    table = run(home / "bin" / "python", program, folder=tmp_path)
    assert "SphereFace2" in table
    assert (tmp_path / "demo" / "report.html").is_file()
    missing = run(command, "reproduce", "--list", folder=tmp_path, status=1)
    assert "which is not installed; from a checkout: pip install ./papers" in missing
    run(*pip, "install", "--quiet", "--no-deps", "--no-index", papers, folder=tmp_path)
    assert "held" in run(command, "reproduce", "--list", folder=tmp_path)
