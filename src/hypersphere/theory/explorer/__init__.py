"""The explorer: losses and the sphere on one offline HTML page, computed in the browser.

The page is plain files beside this one; nothing but numbers of the library is added to them.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
from importlib.resources import files
from pathlib import Path

from hypersphere.core import whole_file
from hypersphere.theory.tammes import BEST_KNOWN
from hypersphere.version import __version__

_SCRIPTS = ("geometry", "losses", "curves", "motion", "drawing", "settings", "controls", "globe", "page")
"""In the order of their dependence."""


def explorer_page() -> str:
    """The page. It fetches nothing, and its policy lets it fetch nothing.

    Example:
        >>> "<canvas" in explorer_page()
        True
    """
    folder = files(__name__)
    style, body, *scripts = (
        folder.joinpath(name).read_text(encoding="utf-8")
        for name in ("page.css", "page.html", *(f"{script}.js" for script in _SCRIPTS))
    )
    script = '"use strict";\n' + "\n".join(scripts)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode("ascii")
    policy = (
        f"default-src 'none'; script-src 'sha256-{digest}'; style-src 'unsafe-inline'; img-src data: blob:; "
        "base-uri 'none'; form-action 'none'"
    )
    data = json.dumps({"tammes": BEST_KNOWN})
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'<meta name="generator" content="hypersphere {__version__}">\n'
        f"<title>Losses on the hypersphere</title>\n<style>\n{style}</style>\n</head>\n<body>\n{body}"
        f'<script type="application/json" id="data">{data}</script>\n<script>{script}</script>\n</body>\n</html>\n'
    )


def save_explorer(path: str | os.PathLike[str]) -> Path:
    """Write the page, whole or not at all, making the folder if need be.

    Args:
        path: of the HTML file.
    """
    with whole_file(path) as partial:
        partial.write_text(explorer_page(), encoding="utf-8", newline="\n")
    return Path(path)
