"""What every room shares: checks with readable errors, configuration, files, the registry, progress, optional packages.

Other rooms import from here; `core.read_arrays` and `core.stored_array` apart, which need numpy.
"""

from hypersphere.core.checks import (
    check_choice,
    check_finite_number,
    check_flag,
    check_integer,
    check_positive,
    check_range,
    check_rising,
    nearest,
)
from hypersphere.core.config import as_table, build, digest, load_toml, overlay, override, to_toml, to_value
from hypersphere.core.device import choose_device
from hypersphere.core.errors import Failure
from hypersphere.core.extras import PAPERS_HINT, extra_folder, import_extra, install_hint, is_installed
from hypersphere.core.files import (
    Staged,
    bytes_digest,
    file_digest,
    make_folders,
    naming_file,
    partial_name,
    read_bounded,
    refuse_existing,
    remove_partial,
    staged_folder,
    sync_file,
    sync_folder,
    whole_file,
    write_atomically,
)
from hypersphere.core.lock import hold_folder
from hypersphere.core.numbers import INT64_MAX, counted, is_integer, parse_integer
from hypersphere.core.parts import Parts
from hypersphere.core.plugins import load_plugins
from hypersphere.core.progress import Progress, Reporter, clip, duration, part_of, terminal_width
from hypersphere.core.read_json import parse_json, read_json
from hypersphere.core.read_lines import check_names, numbered_lines
from hypersphere.core.registry import Registry
from hypersphere.core.sealed import SEAL, read_sealed, seal_of, sealed_text

__all__ = [
    "INT64_MAX",
    "PAPERS_HINT",
    "SEAL",
    "Failure",
    "Parts",
    "Progress",
    "Registry",
    "Reporter",
    "Staged",
    "as_table",
    "build",
    "bytes_digest",
    "check_choice",
    "check_finite_number",
    "check_flag",
    "check_integer",
    "check_names",
    "check_positive",
    "check_range",
    "check_rising",
    "choose_device",
    "clip",
    "counted",
    "digest",
    "duration",
    "extra_folder",
    "file_digest",
    "hold_folder",
    "import_extra",
    "install_hint",
    "is_installed",
    "is_integer",
    "load_plugins",
    "load_toml",
    "make_folders",
    "naming_file",
    "nearest",
    "numbered_lines",
    "overlay",
    "override",
    "parse_integer",
    "parse_json",
    "part_of",
    "partial_name",
    "read_bounded",
    "read_json",
    "read_sealed",
    "refuse_existing",
    "remove_partial",
    "seal_of",
    "sealed_text",
    "staged_folder",
    "sync_file",
    "sync_folder",
    "terminal_width",
    "to_toml",
    "to_value",
    "whole_file",
    "write_atomically",
]
