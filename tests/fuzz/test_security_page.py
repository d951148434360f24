"""The limits that docs/security.md prints are the code's."""

import importlib
import re
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "security.md"


def test_limits_are_those_of_the_code() -> None:
    rows = re.findall(r"^\| .* \| ([\d^-]+) \| `(\w+)` in `([\w/]+)\.py` \|$", PAGE.read_text(), re.MULTILINE)
    assert len(rows) == PAGE.read_text().count(".py` |")
    for stated, name, path in rows:
        base, _, rest = stated.partition("^")
        power, _, less = rest.partition("-")
        limit = int(base) ** int(power or 1) - int(less or 0)
        assert getattr(importlib.import_module(f"hypersphere.{path.replace('/', '.')}"), name) == limit, name
