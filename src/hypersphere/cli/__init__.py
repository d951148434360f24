"""The `hypersphere` command."""

from hypersphere.cli.main import main

__all__ = ["main"]
