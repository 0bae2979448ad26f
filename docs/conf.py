"""How ``docs/build.py`` lets Sphinx make the site. Pages load nothing from other hosts."""

from __future__ import annotations

from pygments.lexers.special import TextLexer
from sphinx.application import Sphinx

project = "delayed-bandits"
author = "the delayed-bandits project"
extensions = ["myst_parser"]
source_suffix = {".md": "markdown"}
root_doc = "index"
myst_heading_anchors = 4
html_theme = "furo"
html_title = project
html_show_sphinx = False
html_copy_source = False
html_extra_path = ["openapi.json"]
html_favicon = "../service/dashboard/assets/icon.svg"
templates_path = ["site"]
html_static_path = ["site/versions.js", "site/versions.css"]
html_css_files = ["versions.css"]
html_js_files = ["versions.js"]
html_sidebars = {
    "**": [
        *("sidebar/brand.html", "versions.html", "sidebar/search.html", "sidebar/scroll-start.html"),
        *("sidebar/navigation.html", "sidebar/scroll-end.html"),
    ]
}


def setup(app: Sphinx) -> None:
    """Show diagrams as their text, which can be read without a program of another host."""
    app.add_lexer("mermaid", TextLexer)
