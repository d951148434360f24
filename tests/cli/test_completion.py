"""`hypersphere completion`: the scripts, in the shells that are there."""

import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from hypersphere.cli import main
from hypersphere.cli.completion import SHELLS

CASES = [
    ("tr", {"train"}),
    ("-q evaluate c", {"classify", "compare"}),
    ("reproduce --kind t", {"theory"}),
    ("train --comp", {"--compile"}),
    ("completion ", {"bash", "zsh", "fish"}),
    ("evaluate pairs --flip s", {"sum"}),
]


@pytest.fixture
def scripts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    for shell in SHELLS:
        assert main(["completion", shell]) == 0
        (tmp_path / shell).write_text(capsys.readouterr().out)
    return tmp_path


@pytest.mark.parametrize("shell", SHELLS)
def test_the_script_is_one_of_its_shell(scripts: Path, shell: str) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not here")
    checked = subprocess.run([shell, "-n", scripts / shell], capture_output=True, text=True, check=False)
    assert (checked.returncode, checked.stderr) == (0, "")
    for word in ("largest-margins", "save-embeddings", "opensphere"):
        assert word in (scripts / shell).read_text()


@pytest.mark.parametrize(("typed", "expected"), CASES)
def test_bash_completes(scripts: Path, typed: str, expected: set[str]) -> None:
    if shutil.which("bash") is None:
        pytest.skip("bash is not here")
    words = ["hypersphere", *typed.split(" ")]
    program = f"source {shlex.quote(str(scripts / 'bash'))}; COMP_WORDS=({shlex.join(words)})\n"
    program += f'COMP_CWORD={len(words) - 1}; _hypersphere; printf "%s\\n" "${{COMPREPLY[@]}}"'
    done = subprocess.run(["bash", "-c", program], capture_output=True, text=True, check=True)
    assert set(done.stdout.split()) == expected


@pytest.mark.parametrize(("typed", "expected"), CASES)
def test_fish_completes(scripts: Path, typed: str, expected: set[str]) -> None:
    if shutil.which("fish") is None:
        pytest.skip("fish is not here")
    program = f"source {scripts / 'fish'}; complete -C 'hypersphere {typed}'"
    done = subprocess.run(["fish", "--no-config", "-c", program], capture_output=True, text=True, check=True)
    assert {line.split("\t")[0] for line in done.stdout.splitlines()} == expected


def test_the_script_is_made_without_torch() -> None:
    source = Path(__file__).parents[2] / "src"
    program = (
        f"import sys; sys.path.insert(0, {str(source)!r}); from hypersphere.cli import main\n"
        "main(['completion', 'zsh'])\nassert 'torch' not in sys.modules"
    )
    assert subprocess.run([sys.executable, "-c", program], stdout=subprocess.DEVNULL, check=False).returncode == 0
