"""What the build adds to the metadata: the README as long description, its links absolute."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

_LINK = re.compile(r"(?P<picture>!?)\[(?P<text>[^\]]*)\]\((?![a-z]+:|#)(?P<target>[^)]+)\)")


def absolute_links(text: str, links: str, version: str) -> str:
    """Let the relative links of a Markdown text begin with ``links``.

    Parameters
    ----------
    links : ``{view}`` in it becomes "blob" for pages and "raw" for pictures; an empty one leaves the text as it is
    """
    if not links:
        return text

    def absolute(link: re.Match[str]) -> str:
        beginning = links.format(view="raw" if link["picture"] else "blob", version=version)
        return f"{link['picture']}[{link['text']}]({beginning}{link['target']})"

    return _LINK.sub(absolute, text)


class LongDescription(MetadataHookInterface):
    """Gives the project its ``readme``."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Add the README to the metadata."""
        text = (Path(self.root) / "README.md").read_text(encoding="utf-8")
        links = absolute_links(text, self.config["links"], metadata["version"])
        metadata["readme"] = {"content-type": "text/markdown", "text": links}
