"""The documentation as a site of plain files: ``nox -s docs`` builds it, and any web server serves the folder.

Pages load nothing from other hosts.
"""

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


def setup(app: Sphinx) -> None:
    """Show diagrams as their text, which can be read without a program of another host."""
    app.add_lexer("mermaid", TextLexer)
