"""Sphinx's settings for the site; `make site` builds it from a copy of the documents and pages made of docstrings."""

from importlib.metadata import files

project = "hypersphere"
extensions = ["myst_parser", "sphinx.ext.mathjax"]
myst_enable_extensions = ["dollarmath"]
myst_dmath_allow_space = False
root_doc = "docs/index"
html_theme = "furo"
html_title = "hypersphere"
html_show_copyright = False
html_show_sphinx = False
html_copy_source = False
myst_heading_anchors = 4
myst_links_external_new_tab = False
pygments_style = "friendly"

# One file of MathJax beside the pages: equations need no network. The package is only what carries it.
mathjax_path = "tex-svg.js"
mathjax = [str(each.locate()) for each in files("sphinx-mathjax-offline") or () if each.name == mathjax_path]
templates_path = ["site"]
html_static_path = [*mathjax, "site/site.css", "site/search.js"]
html_css_files = ["site.css"]
html_use_index = False
