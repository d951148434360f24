"""What every room shares: checks with readable errors, the registry, progress reporting, optional packages."""

from hypersphere.core.checks import (
    check_choice,
    check_finite_number,
    check_flag,
    check_integer,
    check_positive,
    check_range,
    nearest,
)
from hypersphere.core.device import choose_device
from hypersphere.core.errors import Failure
from hypersphere.core.extras import import_extra, install_hint, is_installed
from hypersphere.core.lock import hold_folder
from hypersphere.core.numbers import INT64_MAX, is_integer, parse_integer
from hypersphere.core.progress import Progress, Reporter, duration, part_of
from hypersphere.core.read_json import parse_json, read_json
from hypersphere.core.registry import Registry

__all__ = [
    "INT64_MAX",
    "Failure",
    "Progress",
    "Registry",
    "Reporter",
    "check_choice",
    "check_finite_number",
    "check_flag",
    "check_integer",
    "check_positive",
    "check_range",
    "choose_device",
    "duration",
    "hold_folder",
    "import_extra",
    "install_hint",
    "is_installed",
    "is_integer",
    "nearest",
    "parse_integer",
    "parse_json",
    "part_of",
    "read_json",
]
