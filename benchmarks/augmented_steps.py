"""What augmentation costs in whole training steps: every kind against flips alone.

    python benchmarks/augmented_steps.py [--compile] [--backbone NAME] [--batch B] [--rounds R] [--csv FILE]

The trainer's own loop with images held on the device, CosFace with 5,241 classes, SGD and a moving average of the
weights; bfloat16 on a GPU. A round is a run with all kinds, each for half of the images, and one with flips alone.
"""

from __future__ import annotations

import argparse
import platform
import tempfile
from datetime import UTC, datetime
from pathlib import Path

import torch
from bench import append_row, choose_measured_device, device_name
from bench.measure_training import Crowd, StepClock, measured_recipe

import hypersphere as hs
from hypersphere.data import InMemory, pixels
from hypersphere.distributed import World
from hypersphere.pocket import PocketFaces
from hypersphere.training import Trainer

RESULTS = Path(__file__).parent / "results" / "augmented_steps.csv"
CLASSES, SIZE = 5241, 112


def seconds(options: argparse.Namespace, kinds: str, source: Crowd, folder: Path, device: torch.device) -> float:
    """The seconds of a step, after the warm-up."""
    steps, precision = options.warmup + options.steps, "bfloat16" if device.type == "cuda" else "float32"
    recipe = measured_recipe(options.backbone, SIZE, kinds, steps, options.batch, precision, ema=0.999)
    world = World(device=device)
    trainer = Trainer(recipe, folder, world=world, source=source, workers=0, compile=options.compile)
    clock = StepClock(trainer, (options.warmup, steps))
    trainer.run(clock, until=steps)
    (began, _), (ended, _) = clock.marks
    return (ended - began) / options.steps


def main() -> None:
    """Measure, print and append to the CSV."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device")
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--backbone", default="iresnet18")
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--warmup", type=int, default=15)
    parser.add_argument("--csv", type=Path, default=RESULTS)
    options = parser.parse_args()
    device = torch.device(choose_measured_device(options.device))
    faces = InMemory(PocketFaces(16, 16, SIZE)).to(device)
    source = Crowd(faces, options.batch * (options.steps + options.warmup + 1), CLASSES)
    way = "compiled" if options.compile else "kernels" if pixels.runs_kernels(faces.images) else "operators"
    with tempfile.TemporaryDirectory() as place:
        for number in range(options.rounds):
            took = {}
            for kinds in ("all", "flip"):
                took[kinds] = seconds(options, kinds, source, Path(place) / f"{kinds}{number}", device)
            row = {
                "date_utc": datetime.now(UTC).isoformat(timespec="seconds"),
                "backbone": options.backbone,
                "batch": options.batch,
                "network_compiled": options.compile,
                "pixels": way,
                "flip_images_per_s": round(options.batch / took["flip"]),
                "all_images_per_s": round(options.batch / took["all"]),
                "share": f"{took['all'] / took['flip'] - 1:.4f}",
                "torch": torch.__version__,
                "hypersphere": hs.__version__,
                "python": platform.python_version(),
                "device": device_name(device.type),
            }
            append_row(options.csv, row)
            print(
                f"{way:<10}{row['flip_images_per_s']:>9,} images/s with flips alone,{row['all_images_per_s']:>9,}"
                f" with all kinds: {took['all'] / took['flip'] - 1:.1%} of a step",
                flush=True,
            )


if __name__ == "__main__":
    main()
