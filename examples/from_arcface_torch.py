"""From arcface_torch: its margins by name, and the prototypes of its checkpoints, one file per rank, as one head.

python examples/from_arcface_torch.py FOLDER NUM_CLASSES    # FOLDER has checkpoint_gpu_0.pt, checkpoint_gpu_1.pt, ...
"""

import re
import sys
from pathlib import Path

import torch

import hypersphere as hs


def head_like(margins: tuple[float, float, float], scale: float = 64.0, **options: object) -> hs.Head:
    """`config.margin_list = (m1, m2, m3)` of CombinedMarginLoss, which moves the target without differentiating m2."""
    match margins:
        case (1.0, m2, 0.0):
            return hs.create_head("arcface", scale=scale, margin=m2, margin_grad="detached", **options)
        case (1.0, 0.0, m3):
            return hs.create_head("cosface", scale=scale, margin=m3, **options)
    raise ValueError(f"margins {margins}: CombinedMarginLoss has (1, m2, 0) and (1, 0, m3) alone")


def rank_of(path: Path) -> int:
    return int(re.findall(r"\d+", path.stem)[-1])  # by number: 10 comes after 9


def read_prototypes(folder: Path) -> torch.Tensor:
    """(num_classes, dim): the rows of all ranks in the order of their classes; no code of a file is run."""
    rows = []
    for path in sorted(folder.glob("checkpoint_gpu_*.pt"), key=rank_of):
        state = torch.load(path, weights_only=True, map_location="cpu")["state_dict_softmax_fc"]
        rows.append(state["weight"])
    if not rows:
        raise ValueError(f"{folder} has no checkpoint_gpu_*.pt")
    return torch.cat(rows)


def main(folder: Path, num_classes: int, margins: tuple[float, float, float] = (1.0, 0.5, 0.0)) -> hs.Head:
    """Return the head; `sample=0.3` is config.sample_rate, `shard=group` the classes over processes again."""
    prototypes = read_prototypes(folder)
    if len(prototypes) != num_classes:
        raise ValueError(f"the files have {len(prototypes)} classes, not {num_classes}: is a rank's file missing?")
    head = head_like(margins, dim=prototypes.shape[1], num_classes=num_classes)
    with torch.no_grad():
        head.weight.copy_(prototypes)
    print(head)
    return head


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
