"""Losses, backbones and protocols that users write: files that they name, and entry points of what they install."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.metadata import entry_points
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

from hypersphere.core.files import bytes_digest

ENTRY_POINTS = "hypersphere.plugins"
"""An entry point `NAME = "package.module"` names a module that registers losses, backbones or protocols."""


def load_plugins(files: Sequence[str | Path] = ()) -> dict[str, str]:
    """Run Python files, and the modules of installed plugins, for what they register; each once in a process.

    Their code runs with the rights of the user, as any program that they start.

    Args:
        files: such as `own_loss.py`.

    Returns:
        the names of the files, each with the digest of its text.
    """
    for point in sorted(entry_points(group=ENTRY_POINTS), key=lambda point: point.name):
        try:
            point.load()
        except Exception as error:  # the code is another's, and may fail in any way
            raise ValueError(f"the plugin {point.name} ({point.value}) cannot be loaded: {_told(error)}") from error
    return {Path(file).name: _run(Path(file)) for file in files}


def _run(file: Path) -> str:
    if file.suffix != ".py" or not file.is_file():
        raise ValueError(f"plugin {file} is no Python file: give one that registers a loss, a backbone or a protocol")
    name = f"hypersphere_plugin_{file.stem}"
    digest = bytes_digest(file.read_bytes())
    if (loaded := sys.modules.get(name)) is not None:
        if Path(str(loaded.__file__)).resolve() != file.resolve():
            raise ValueError(f"plugin {file}: another of this name is loaded, {loaded.__file__}; rename one")
        return digest
    spec = spec_from_file_location(name, file)
    assert spec is not None
    assert spec.loader is not None
    sys.modules[name] = module = module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        del sys.modules[name]
        raise ValueError(f"plugin {file} cannot be loaded: {_told(error)}") from error
    return digest


def _told(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"
