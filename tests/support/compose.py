"""What docker-compose.yml, the Dockerfile and pyproject.toml say, for tests that hold it or run with it."""

import tomllib
from typing import Any

import yaml
from packaging.requirements import Requirement

from tests.support.pages import ROOT

COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
DOCKERFILE = (ROOT / "Dockerfile").read_text()
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def needed(extras: list[str]) -> set[Requirement]:
    """What extras of the project install, those within them included."""
    found = {Requirement(line) for extra in extras for line in PROJECT["optional-dependencies"][extra]}
    own = {each for each in found if each.name == PROJECT["name"]}
    return (found - own) | {each for one in own for each in needed(sorted(one.extras))}
