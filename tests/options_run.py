"""Which options of commands the tests run: noted where a command returns, or is begun as another process."""

import shlex
import subprocess
from argparse import Namespace
from importlib import import_module
from typing import Any

from hypersphere.cli.output import Results
from hypersphere.cli.parser import Run
from tools.unused_options import named

RAN: set[str] = set()


def watch() -> None:
    """Note from now on what runs; a command that ends with an error has not run."""
    program = import_module("hypersphere.cli.main")  # the package has a function of this name
    find, start = program.find_run, subprocess.Popen.__init__

    def find_watched(name: str) -> Run:
        run = find(name)

        def run_watched(options: Namespace) -> Results | None:
            results = run(options)
            RAN.update(named(shlex.split(options.command)[1:]))
            return results

        return run_watched

    def start_watched(process: subprocess.Popen[Any], arguments: Any, *rest: Any, **settings: Any) -> None:
        start(process, arguments, *rest, **settings)
        words = list(map(str, arguments)) if isinstance(arguments, list | tuple) else []
        if "hypersphere" in words:
            RAN.update(named(words[words.index("hypersphere") + 1 :]))

    vars(program)["find_run"] = find_watched
    subprocess.Popen.__init__ = start_watched  # type: ignore[assignment, method-assign]
