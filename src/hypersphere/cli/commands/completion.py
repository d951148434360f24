"""Declare `hypersphere completion`."""

from __future__ import annotations

from typing import Any

SHELLS = ("bash", "zsh", "fish")


def add_command(commands: Any) -> None:
    """Add `completion` to the command line."""
    parser = commands.add_parser(
        "completion",
        help="print a script that lets a shell complete commands and options",
        description="Print a script that lets a shell complete commands, options and their values. bash: put `source "
        "<(hypersphere completion bash)` into ~/.bashrc; zsh: `source <(hypersphere completion zsh)` into ~/.zshrc, "
        "after compinit; fish: hypersphere completion fish > ~/.config/fish/completions/hypersphere.fish",
    )
    parser.add_argument("shell", choices=SHELLS, help=", ".join(SHELLS))
    parser.set_defaults(run="completion:run")
