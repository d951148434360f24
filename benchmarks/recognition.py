"""Recognition side by side with peers, a part at a time: `python benchmarks/recognition.py search`.

Each part is a file of its own, `recognition_PART.py`, and appends to a CSV file of its own, with versions and machine.
All run on one thread unless the environment says otherwise (OMP_NUM_THREADS and the like).
"""

from __future__ import annotations

import os
import sys
from importlib import import_module
from pathlib import Path

PARTS = ("chain", "detection", "faults", "search", "service")


def main() -> None:
    """Hand the rest of the command line to a part."""
    part = sys.argv[1] if len(sys.argv) > 1 else ""
    if part not in PARTS:
        raise SystemExit(f"name a part: {', '.join(PARTS)}")
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ.setdefault(name, "1")
    sys.path.insert(0, str(Path(__file__).parent))
    import_module(f"recognition_{part}").main(sys.argv[2:])


if __name__ == "__main__":
    main()
