"""The `hypersphere` command."""

from hypersphere.cli.main import main
from hypersphere.cli.output import Results, green, note, red, screen_width, wrapped
from hypersphere.cli.parser import add_device, add_seeds

__all__ = [
    "Results",
    "add_device",
    "add_seeds",
    "green",
    "main",
    "note",
    "red",
    "screen_width",
    "wrapped",
]
