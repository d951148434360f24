"""Write the public names, those of `__all__` of the package and of its rooms: `docs/exported-names.txt`."""

import ast
from pathlib import Path

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "hypersphere"
PAGE = ROOT / "docs" / "exported-names.txt"


def exported(path: Path) -> list[str]:
    """Return the names of a module's `__all__`, read without importing it."""
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            return [str(name) for name in ast.literal_eval(node.value)]
    raise ValueError(f"{path} has no __all__")


def names() -> list[str]:
    """Return every public name with its module, sorted: `hypersphere.create_head`, `hypersphere.heads.Head`."""
    modules = {"hypersphere": SOURCE / "__init__.py"}
    modules |= {f"hypersphere.{path.parent.name}": path for path in sorted(SOURCE.glob("*/__init__.py"))}
    return sorted(f"{module}.{name}" for module, path in modules.items() for name in exported(path))


def main() -> None:
    PAGE.write_text("".join(f"{name}\n" for name in names()))
    print(PAGE.relative_to(ROOT))


if __name__ == "__main__":
    main()
