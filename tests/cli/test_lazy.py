"""Help, the version and a typo do not wait for torch, and what the declarations copy from the rooms is true."""

import argparse
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from hypersphere.cli import advise, cluster, data, photo_options
from hypersphere.cli import evaluate_options as declared
from hypersphere.cli.main import build_parser, main
from hypersphere.cli.parser import find_run

SOURCE = Path(__file__).parents[2] / "src"


def run_fresh(program: str) -> subprocess.CompletedProcess[str]:
    words = [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(SOURCE)!r})\n{program}"]
    return subprocess.run(words, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    "words",
    [
        "--help",
        "--version",
        "trian",
        "train --help",
        "compare --help",
        "data inspect --help",
        "evaluate pairs --help",
        "evaluate paris",
        "embed --help",
        "verify --help",
        "identify --help",
        "calibrate --help",
        "cluster --help",
        "theory --help",
        "reproduce --help",
    ],
)
def test_torch_is_not_imported(words: str) -> None:
    program = f"""
import resource
from hypersphere.cli import main
try:
    main({words.split()!r})
finally:
    heavy = {{"torch", "numpy", "scipy"}} & set(sys.modules)
    print("heavy:", sorted(heavy), "seconds:", resource.getrusage(resource.RUSAGE_SELF).ru_utime)
"""
    result = run_fresh(program)
    *_, last = result.stdout.splitlines()
    assert "heavy: []" in last, result.stderr
    assert float(last.split()[-1]) < 0.3


def test_the_package_loads_its_names_when_they_are_used() -> None:
    result = run_fresh("""
import hypersphere as hs
assert "torch" not in sys.modules
assert {"create_head", "training"} <= set(dir(hs))
assert hs.geometry.normalize is not None
for name in hs.__all__:
    getattr(hs, name)
assert hs.training.Trainer is not None
from hypersphere import *
assert create_head is hs.create_head
try:
    hs.creat_head
except AttributeError as error:
    print(error)
""")
    assert "has no attribute 'creat_head'; did you mean 'create_head'?" in result.stdout, result.stderr


def test_a_typo_gets_a_guess(capsys: pytest.CaptureFixture[str]) -> None:
    for words, guess in (
        (["trian"], "'train'"),
        (["evaluate", "parirs"], "'pairs'"),
        (["theory", "tames"], "'tammes'"),
        (["reproduce", "--kind", "teory"], "'theory'"),
    ):
        with pytest.raises(SystemExit) as leaving:
            main(words)
        assert leaving.value.code == 2
        assert f"did you mean {guess}?" in capsys.readouterr().err


def leaves(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    inner = [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
    if parser.get_default("run") is not None:
        yield parser
    for action in inner:
        for child in action.choices.values():
            yield from leaves(child)


def test_every_command_leads_to_a_function() -> None:
    commands = list(leaves(build_parser()))
    assert len(commands) > 30
    for command in commands:
        assert callable(find_run(command.get_default("run"))), command.prog


def test_what_the_declarations_copy_is_what_the_rooms_say() -> None:
    from hypersphere.data import FORMATS
    from hypersphere.data.convert import layouts
    from hypersphere.evaluation.metrics.retrieval import AREAS
    from hypersphere.evaluation.metrics.similarity import SIMILARITIES
    from hypersphere.evaluation.metrics.verification import FARS
    from hypersphere.evaluation.protocols import PRESETS, legacy, templates
    from hypersphere.evaluation.protocols.classify import protocol as classify
    from hypersphere.evaluation.protocols.ijb import protocol as ijb
    from hypersphere.evaluation.protocols.megaface import protocol as megaface
    from hypersphere.evaluation.protocols.ytf import protocol as ytf
    from hypersphere.models import FLIPS
    from hypersphere.models import PRESETS as CONTRACTS
    from hypersphere.recognition import FACES, LINKAGES
    from hypersphere.theory import ExpectedSoftmax

    assert set(advise.MARGINS) < set(ExpectedSoftmax.__dataclass_fields__)
    assert (tuple(FORMATS), layouts()) == (data.FORMATS, data.LAYOUTS)
    assert (FLIPS, tuple(CONTRACTS)) == (declared.FLIPS, declared.CONTRACTS)
    assert declared.SIMILARITIES == SIMILARITIES
    assert declared.PROTOTYPE_SIMILARITIES == classify.SIMILARITIES
    assert (declared.AREAS, declared.FARS, declared.FPIRS) == (AREAS, FARS, ijb.FPIRS)
    assert (declared.SEARCHES, declared.TASKS, declared.TAR_RULES) == (ijb.SEARCHES, ijb.TASKS, legacy.TAR_RULES)
    assert (declared.TEMPLATE_FLIPS, declared.MEDIA) == (templates.FLIPS, templates.MEDIA)
    assert (declared.CLEANINGS, declared.CLASSIFIERS) == (megaface.CLEANINGS, ytf.CLASSIFIERS)
    assert tuple(PRESETS) == declared.PRESETS
    assert (photo_options.FACES, cluster.LINKAGES) == (FACES, LINKAGES)


SHARED = ("--list", "--workers", "--batch-size", "--seeds", "--compile", "--device", "--jobs")


@pytest.mark.parametrize("option", SHARED)
def test_an_option_means_the_same_in_every_command(option: str) -> None:
    """What it takes; of those declared once, the sentence too."""
    found = {}
    for parser in leaves(build_parser()):
        action = parser._option_string_actions.get(option)
        if action is not None:
            found[parser.prog] = (type(action), action.nargs, action.type)
    assert len(found) >= 1
    assert len(set(found.values())) == 1, found
