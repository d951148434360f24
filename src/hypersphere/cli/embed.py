"""`hypersphere embed`: images to a file of unit vectors with their names."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import hypersphere as hs
from hypersphere.cli.model_options import add_default_model, check_model, chosen_model, runtime_of, say_model
from hypersphere.cli.output import Results
from hypersphere.cli.parser import add_device, check_exists
from hypersphere.core import Progress

ENGINES = ("local", "ray")


def add_command(commands: Any) -> None:
    """Add `embed` to the command line."""
    parser = commands.add_parser(
        "embed",
        help="write the unit vectors of images to a file",
        description="Write the unit vectors of images, with their names. The same command goes on after a kill. Several"
        " processes: torchrun --nproc-per-node N -m hypersphere embed ..., or --engine ray; the file is the same.",
    )
    parser.add_argument("images", metavar="IMAGES", help="folder, .tar or folder of them, list, .rec, or one image")
    parser.add_argument(
        "out",
        type=Path,
        metavar="OUT",
        help="X.npy or X.safetensors, with names in X.txt, or X.parquet",
    )
    add_default_model(parser)
    parser.add_argument("--format", metavar="F", help="of the images (guessed from names)")
    parser.add_argument("--resize", action="store_true", help="resize images to the model's size; else refuse them")
    parser.add_argument("--allow-unreadable", action="store_true", help="leave out and name images that cannot be read")
    parser.add_argument("--batch-size", type=int, default=128, metavar="N", help="images at a time (%(default)s)")
    parser.add_argument("--workers", type=int, default=2, metavar="N", help="threads that load images (%(default)s)")
    parser.add_argument("--engine", choices=ENGINES, default="local", help="who computes (%(default)s)")
    parser.add_argument("--processes", type=int, default=2, metavar="N", help="of --engine ray (%(default)s)")
    add_device(parser)
    parser.set_defaults(run="embed:run_embed", goes_on=True)


def run_embed(options: argparse.Namespace) -> Results | None:
    """Embed and say what was written."""
    check_exists(Path(options.images))
    check_model(options.model)
    model = chosen_model(options)
    with hs.distributed.join_world(options.device) as world:
        if world.is_main:
            say_model(options)
        task = hs.evaluation.EmbedTask(
            images=options.images,
            model=model,
            runtime=runtime_of(options),
            device=hs.models.model_device(model, options.device and str(world.device)),
            **{name: getattr(options, name) for name in ("format", "contract", "resize", "allow_unreadable")},
            **{name: getattr(options, name) for name in ("batch_size", "workers")},
        )
        engine = hs.evaluation.ray_engine(options.processes) if options.engine == "ray" else None
        with Progress(f"embedding {Path(options.images).name}", "images") as progress:
            made = hs.evaluation.embed_to_file(task, options.out, world=world, engine=engine, progress=progress)
        if not world.is_main:
            return None
    if made.unreadable:
        print(f"{len(made.unreadable):,} images cannot be read and are left out; {made.files[-1]} names them")
    print(f"{made.count:,} unit vectors: {', '.join(map(str, made.files))}")
    return Results({"files": made.files, "vectors": made.count, "unreadable": made.unreadable, "model": task.model})
