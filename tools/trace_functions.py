"""Count the functions and files that a command passes through: `python tools/trace_functions.py [train|identify]`.

A function counts once, however often it is called. The command is run twice and traced the second time, when nothing is
imported any more. `--list` names the functions.
"""

import argparse
import inspect
import os
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import CodeType, FrameType

import hypersphere as hs
from hypersphere.cli import main as run
from hypersphere.data.images import encode
from hypersphere.pocket import PocketFaces

SOURCE = Path(hs.__file__).parent
QUIET = ["--quiet", "--device", "cpu"]


def traced(work: Callable[[], object]) -> set[CodeType]:
    """Return the code of the library's functions that run while `work` does."""
    codes: set[CodeType] = set()

    def note(frame: FrameType, event: str, _: object) -> None:
        if event == "call":
            codes.add(frame.f_code)

    threading.setprofile(note)
    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)  # type: ignore[arg-type]
    inside = f"{SOURCE}{os.sep}"
    functions = {code for code in codes if code.co_flags & inspect.CO_OPTIMIZED and not code.co_name.startswith("<")}
    return {code for code in functions if code.co_filename.startswith(inside)}


def train(folder: Path) -> set[CodeType]:
    """Trace a short training of painted faces."""
    few = ["train.steps=2", "data.identities=20", "train.batch_size=8"]
    run(["train", "pocket/faces", *few, "--out", str(folder / "before"), *QUIET])
    return traced(lambda: run(["train", "pocket/faces", *few, "--out", str(folder / "run"), *QUIET]))


def identify(folder: Path) -> set[CodeType]:
    """Trace the search of an aligned photo among ten people who were enrolled before."""
    faces, gallery = PocketFaces(10, 1, 112), str(folder / "people.db")
    for person in range(10):
        photo = folder / f"person{person}.png"
        photo.write_bytes(encode(faces.read(person)))
        run(["enroll", f"person{person}", str(photo), "--gallery", gallery, "--aligned", *QUIET])
    run(["identify", str(photo), "--gallery", gallery, "--aligned", *QUIET])
    return traced(lambda: run(["identify", str(photo), "--gallery", gallery, "--aligned", *QUIET]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("flow", nargs="?", choices=("train", "identify"), help="both by default")
    parser.add_argument("--list", action="store_true", help="name every function")
    options = parser.parse_args()
    for flow in (train, identify):
        if options.flow not in (None, flow.__name__):
            continue
        with tempfile.TemporaryDirectory() as folder:
            codes = flow(Path(folder))
        files = {code.co_filename for code in codes}
        rooms = Counter(Path(code.co_filename).relative_to(SOURCE).parts[0] for code in codes)
        print(f"{flow.__name__}: {len(codes)} functions in {len(files)} files of {len(rooms)} rooms")
        print("  " + ", ".join(f"{room} {count}" for room, count in rooms.most_common()))
        for code in sorted(codes, key=lambda code: (code.co_filename, code.co_firstlineno)) if options.list else ():
            print(f"  {Path(code.co_filename).relative_to(SOURCE)}:{code.co_firstlineno} {code.co_qualname}")


if __name__ == "__main__":
    main()
