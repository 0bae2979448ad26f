"""What the project says it needs, by extra."""

import tomllib

from packaging.requirements import Requirement

from tests.support.compose import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def needed(extras: list[str]) -> set[Requirement]:
    """What extras install, those within them included."""
    found = {Requirement(line) for extra in extras for line in PROJECT["optional-dependencies"][extra]}
    own = {each for each in found if each.name == PROJECT["name"]}
    return (found - own) | {each for one in own for each in needed(sorted(one.extras))}
