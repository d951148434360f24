"""Declare `hypersphere data`."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from hypersphere.cli.commands.machine import add_device

LAYOUTS = """\
  folder  root/identity/image.jpg
  list    a text file with 'path label' or 'path' on each line
  tar     an archive or a folder of them: key.jpg + key.cls, or identity/image.jpg
  rec     InsightFace's train.rec + train.idx
  bin     InsightFace's verification pack, lfw.bin
  mnist   train-images-idx3-ubyte + train-labels-idx1-ubyte, plain or .gz
  cifar   data_batch_*.bin or train.bin, or split/class/image
  market  bounding_box_train/0002_c1s1_000451_03.jpg, query, bounding_box_test"""
FORMATS = ("folder", "list", "tar", "rec", "bin", "mnist", "cifar", "market")
"""What `hypersphere.data` reads; a test compares."""


def add_command(commands: Any) -> None:
    """Add `data` to the command line."""
    parser = commands.add_parser(
        "data",
        help="inspect, pack and convert sets of images; find shared identities",
        description="Look at sets of images, pack and convert them, find identities that two sets share.",
        epilog=f"formats:\n{LAYOUTS}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    actions = parser.add_subparsers(title="actions", metavar="ACTION", required=True)
    _add_inspect(actions)
    _add_pack(actions)
    _add_convert(actions)
    _add_overlap(actions)


def _add_source(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("source", metavar="SOURCE", help="a file or folder; quote a pattern such as 'faces-*.tar'")
    parser.add_argument(
        "--format", choices=FORMATS, metavar="FORMAT", help=f"of SOURCE: {', '.join(FORMATS)}; guessed by default"
    )
    parser.add_argument("--split", metavar="NAME", help="train, test, query, gallery: where the format has several")
    parser.add_argument(
        "--root", type=Path, metavar="FOLDER", help="where a list's paths start from (the list's folder)"
    )
    parser.add_argument("--relabel", action="store_true", help="number the labels that occur from 0 on, gaps or not")


def _add_target(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("out", metavar="OUT", type=Path, help="where to; must not exist yet")
    parser.add_argument(
        "--quality",
        type=int,
        metavar="N",
        help="JPEG quality, 1 to 100, where SOURCE has pixels only; else they become PNG",
    )
    parser.add_argument(
        "--skip-unreadable",
        action="store_true",
        help="read every image first and leave out those that cannot be read; refuses above 1 %% of them",
    )


def _add_inspect(actions: Any) -> None:
    parser = actions.add_parser(
        "inspect",
        help="what a set holds",
        description="Show what a set holds: images, identities, sizes, and what cannot be read.",
    )
    _add_source(parser)
    parser.add_argument(
        "--sample", type=int, default=1000, metavar="N", help="images to read, evenly spread; 0 for all (%(default)s)"
    )
    parser.set_defaults(run="data:inspect")


def _add_pack(actions: Any) -> None:
    parser = actions.add_parser(
        "pack",
        help="a folder or list (or any set) into tar shards or a .rec",
        description="Write a set as InsightFace's .rec (OUT ends in .rec), as one archive (.tar), or as a folder of "
        "tar shards. Encoded images are copied byte for byte; their identities keep their names.",
    )
    _add_source(parser)
    _add_target(parser)
    parser.add_argument(
        "--shard-size", type=int, metavar="N", help="images per tar shard, of a folder of shards (10,000)"
    )
    parser.set_defaults(run="data:pack")


def _add_convert(actions: Any) -> None:
    parser = actions.add_parser(
        "convert",
        help="from one format to another",
        description="Write a set in another format. Encoded images are copied byte for byte where it holds such.",
    )
    _add_source(parser)
    _add_target(parser)
    parser.add_argument(
        "--to",
        choices=FORMATS,
        metavar="FORMAT",
        help="format of OUT; by its name's end by default: .rec, .tar, .bin, .txt, otherwise an image folder",
    )
    splits = ("train", "test", "query", "gallery")
    parser.add_argument("--to-split", choices=splits, metavar="NAME", help=f"OUT's split: {', '.join(splits)}")
    parser.set_defaults(run="data:convert")


def _add_overlap(actions: Any) -> None:
    parser = actions.add_parser(
        "overlap",
        help="identities that two sets share",
        description="Identities that two sets share: by name, or, with --model, by the cosine of their mean "
        "embeddings. Which cosine tells two people apart depends on the model: look where the printed ones drop.",
    )
    parser.add_argument("sources", metavar="SOURCE", nargs="*", help="the two sets")
    parser.add_argument(
        "--model", metavar="RUN", type=Path, help="embed every image with the network of this folder of `train`"
    )
    parser.add_argument(
        "--embeddings",
        metavar="NPY",
        nargs=2,
        type=Path,
        help="instead of sets, two arrays of mean embeddings, a row for each identity in the order of the labels",
    )
    parser.add_argument(
        "--threshold", type=float, default=0.4, metavar="COSINE", help="the least that counts as shared (%(default)s)"
    )
    parser.add_argument("--resize", action="store_true", help="resize images to the model's size")
    parser.add_argument(
        "--skip-unreadable", action="store_true", help="with --model: leave out images that cannot be read, up to 1 %%"
    )
    add_device(parser)
    parser.set_defaults(run="data:overlap")
