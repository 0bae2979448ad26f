"""What the build adds: the README as long description, its links absolute, and the commit of the package."""

from __future__ import annotations

import re
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
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
    """Gives the project its ``readme`` and its address."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Add the README, and where it comes from, to the metadata."""
        text = (Path(self.root) / "README.md").read_text(encoding="utf-8")
        links = self.config["links"]
        text = absolute_links(text, links, metadata["version"])
        metadata["readme"] = {"content-type": "text/markdown", "text": text}
        metadata["urls"] = {"Source": links.partition("/{view}")[0]} if links else {}


def commit_of(root: Path) -> str:
    """Return the commit whose files a checkout's package has; "" where they are changed, or of no checkout."""
    asked = (("rev-parse", "--show-toplevel"), ("status", "--porcelain", "--", "service"), ("rev-parse", "HEAD"))
    try:
        top, changed, commit = (
            subprocess.run(  # noqa: S603 - three commands, all here
                ["git", *words],  # noqa: S607 - that of whoever builds
                cwd=root,
                capture_output=True,
                text=True,
                check=True,
            ).stdout.strip()
            for words in asked
        )
    except (OSError, subprocess.CalledProcessError):
        return ""
    return commit if Path(top) == root.resolve() and not changed else ""


class Revision(BuildHookInterface):
    """Lets the package name its commit, in the file ``REVISION``."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Add the file."""
        if version == "editable" or not (commit := commit_of(Path(self.root))):
            return
        file = Path(tempfile.mkdtemp(), "REVISION")
        file.write_text(f"{commit}\n", encoding="utf-8")
        folder = "delayed_bandits" if self.target_name == "wheel" else "service"
        build_data["force_include"][str(file)] = f"{folder}/REVISION"
