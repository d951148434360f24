"""Sphinx's settings for the site; `make site` builds it from a copy of the documents and pages made of docstrings."""

project = "hypersphere"
extensions = ["myst_parser"]
root_doc = "docs/index"
html_theme = "furo"
html_title = "hypersphere"
html_show_copyright = False
html_show_sphinx = False
html_copy_source = False
myst_heading_anchors = 4
myst_links_external_new_tab = False
pygments_style = "friendly"
