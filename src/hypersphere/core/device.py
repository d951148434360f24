"""Where to compute: the device that a user names, or the best there is."""

from __future__ import annotations

from hypersphere.core.checks import check_choice

DEVICES = ("cpu", "cuda", "mps")


def choose_device(name: str | None = None) -> str:
    """The device to compute on; one that is not there is a ValueError.

    Args:
        name: `cpu`, `cuda`, `cuda:1` and so on, or `mps` (Apple's GPUs); by default `cuda` where there is one,
            otherwise `cpu`.
    """
    import torch

    there = ["cpu"]
    if torch.cuda.is_available():
        there.append("cuda")
    if torch.backends.mps.is_available():
        there.append("mps")
    if name is None:
        return "cuda" if "cuda" in there else "cpu"
    kind, colon, index = name.partition(":")
    check_choice("device", kind, DEVICES)
    if kind not in there:
        found = ", ".join(there)
        raise ValueError(
            f"device={name!r}: there is no {kind.upper()} device that this torch can use; there is: {found}"
        )
    count = torch.cuda.device_count() if kind == "cuda" else 1
    if colon and not (index.isdecimal() and int(index) < count):
        raise ValueError(f"device={name!r}: there is {kind}:0" + (f" to {kind}:{count - 1}" if count > 1 else " only"))
    return name
