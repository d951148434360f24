"""The library with its core dependencies alone: `make test-minimal`.

Every installed package that neither torch, numpy nor scipy needs is hidden. Then all modules are imported, and what
README promises of such an install is used: losses, training on painted faces, evaluation, `theory`, `reproduce`.
"""

import importlib
import io
import json
import os
import pkgutil
import re
import sys
import tempfile
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from importlib import metadata
from pathlib import Path
from typing import Any

CORE = ("torch", "numpy", "scipy")
KERNELS = ("hypersphere.engines.triton.", "hypersphere.optim.", "hypersphere.data.pixel_kernels")
"""Where modules may need Triton to be imported; nothing imports them without having found it."""


def needed_by(names: tuple[str, ...]) -> set[str]:
    """Names of distributions that these need, and of what those need, themselves included."""
    found: set[str] = set()
    waiting = list(names)
    while waiting:
        name = _plain(waiting.pop())
        if name in found:
            continue
        found.add(name)
        try:
            requirements = metadata.requires(name) or []
        except metadata.PackageNotFoundError:
            continue
        waiting += [re.split(r"[^\w.-]", each)[0] for each in requirements if "extra ==" not in each]
    return found


def _plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def hide_extras() -> list[str]:
    """Make every import of another package fail as that of a missing one does; return what was hidden."""
    kept, installed = needed_by(CORE), metadata.packages_distributions()
    hidden = [name for name, owners in installed.items() if not kept & {_plain(each) for each in owners}]
    hidden = [name for name in hidden if name not in ("hypersphere", "hypersphere_papers")]
    for name in hidden:
        sys.modules[name] = None  # type: ignore[assignment]
    return hidden


def import_all() -> int:
    """Import every module but kernels; return how many there are."""
    import hypersphere

    def raised(name: str) -> None:
        _import(name)

    found = pkgutil.walk_packages(hypersphere.__path__, "hypersphere.", onerror=raised)
    return sum(_import(each.name) for each in found if not each.name.endswith("__main__"))


def _import(name: str) -> bool:
    try:
        importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name != "triton" or not name.startswith(KERNELS):
            raise
        return False
    return True


def use_losses() -> None:
    """Every loss, forward and backward, and the lists of names."""
    import torch

    import hypersphere as hs

    assert hs.list_protocols()
    for name in hs.list_heads():
        counts: dict[str, Any] = {"class_counts": [4, 3, 2, 1]} if name in ("ldam", "label_aware_smoothing") else {}
        head = hs.create_head(name, dim=8, num_classes=4, **counts)
        head(torch.randn(6, 8, requires_grad=True), torch.arange(6) % 4).backward()
        head.advance()
    for name in ("contrastive", "triplet"):
        hs.create_loss(name)(torch.randn(6, 8, requires_grad=True), torch.arange(6) % 2).backward()
    assert hs.create_backbone("cnn4", dim=8, input_size=(16, 16))(torch.zeros(2, 3, 16, 16)).shape == (2, 8)
    assert "sfnet20" in hs.list_backbones()


def use_evaluation() -> None:
    """Scores and embeddings in memory."""
    import numpy as np

    from hypersphere.evaluation import curve_metrics, roc_curve, verify_pairs

    rng = np.random.default_rng(0)
    same = np.arange(2000) % 2 == 0
    scores = rng.normal(size=2000) + 3 * same
    assert verify_pairs(scores, same).accuracy.value > 0.9
    assert "tar@far=1e-2" in curve_metrics(roc_curve(scores, same), fars=[1e-2])


def command(*words: str) -> dict[str, object]:
    """What `hypersphere WORDS --json` reports."""
    from hypersphere.cli import main

    with redirect_stdout(io.StringIO()) as out, redirect_stderr(io.StringIO()) as err:
        status = main([*words, "--json"])
    assert status == 0, f"hypersphere {' '.join(words)}: {err.getvalue()}"
    told: dict[str, object] = json.loads(out.getvalue())
    return told


def use_commands() -> None:
    """Train, and compute every quick number of `theory` and `reproduce`."""
    command("train", "pocket/faces", "--steps", "3", "data.identities=20", "train.batch_size=8", "--out", "run")
    command("advise", "--classes", "1000", "--dim", "64")
    for name in (
        "nearest",
        "caps",
        "weights",
        "curves",
        "termination",
        "decisions",
        "normface",
        "sphereface",
        "sphereface2",
    ):
        command("theory", name, "--out", "theory")
    command("theory", "toy", "--steps", "3", "--out", "theory")
    command("reproduce", "normface/fig5", "--out", "reproduce")


def main() -> None:
    """Run the checks one after the other; the first that fails ends them with its traceback."""
    sys.path[:0] = [str(Path(__file__).parents[1] / folder) for folder in ("src", "papers/src")]
    hidden = hide_extras()
    checks: list[Callable[[], object]] = [use_losses, use_evaluation, use_commands]
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        count = import_all()
        for check in checks:
            check()
    wrong = sorted({name.partition(".")[0] for name, module in sys.modules.items() if module} & set(hidden))
    assert not wrong, f"imported all the same: {wrong}"
    print(f"with {', '.join(CORE)} alone: {count} modules imported, losses, training, evaluation, theory, reproduce")


if __name__ == "__main__":
    main()
