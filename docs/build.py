"""Builds the documentation as a site of plain files: ``python docs/build.py [FOLDER]``, by default ``build/site``.

Pages lie in a folder named after the version of the project, beside those of versions that were built there before.
``versions.json`` lists them all, newest first, and ``index.html`` leads to the newest. Any web server can serve the
folder, at any path, also without a network. A warning is an error, and leaves the folder as it was.
"""

import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from packaging.version import InvalidVersion, Version

DOCS = Path(__file__).parent
ROOT = DOCS.parent
sys.path.insert(0, str(ROOT))

from service import __version__  # noqa: E402 - found in the checkout

PUBLISHED = ""
"""Address of the folder once it is published, with a slash at the end: pages then name the one that counts."""
LEADING = """<!DOCTYPE html>
<html lang="en">
<meta charset="utf-8">
<title>delayed-bandits</title>
<link rel="icon" href="{0}/_static/icon.svg">
<meta http-equiv="refresh" content="0; url={0}/index.html">
<a href="{0}/index.html">delayed-bandits {0}</a>
</html>
"""


def build(folder: Path, version: str = __version__) -> int:
    """Build the pages of this checkout into ``folder / version``, and return Sphinx's exit code."""
    with tempfile.TemporaryDirectory() as work:
        made = Path(work) / "made"
        options = ["-W", "--keep-going", "-q", "-b", "html", "-D", f"version={version}", "-D", f"release={version}"]
        if PUBLISHED:
            options += ["-D", f"html_baseurl={PUBLISHED}{version}/"]
        command = [sys.executable, "-m", "sphinx", *options, "-d", f"{work}/doctrees", DOCS, made]
        if code := subprocess.run(command, cwd=ROOT, check=False).returncode:  # noqa: S603 - its own words
            return code
        shutil.rmtree(folder / version, ignore_errors=True)
        shutil.copytree(made, folder / version)
    versions = versions_in(folder)
    (folder / "versions.json").write_text(json.dumps(versions) + "\n")
    (folder / "index.html").write_text(LEADING.format(newest(versions)))
    (folder / ".nojekyll").touch()  # Else GitHub Pages leaves out folders such as _static.
    return 0


def versions_in(folder: Path) -> list[str]:
    """Return the versions whose pages lie in a folder, newest first."""
    found = []
    for page in folder.glob("*/index.html"):
        try:
            found.append((Version(page.parent.name), page.parent.name))
        except InvalidVersion:
            continue
    return [name for _, name in sorted(found, reverse=True)]


def newest(versions: Sequence[str]) -> str:
    """Return the first version that is no pre-release, or the first if all are."""
    return next((each for each in versions if not Version(each).is_prerelease), versions[0])


if __name__ == "__main__":
    sys.exit(build(Path(sys.argv[1]) if sys.argv[1:] else ROOT / "build/site"))
