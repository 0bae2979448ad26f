"""The wheel, and environments that hold it. Needs no network."""

import os
import subprocess
import sys
import sysconfig
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ENVIRONMENT = {
    name: value for name, value in os.environ.items() if not name.startswith(("BANDIT_", "COVERAGE_", "PYTHONPATH"))
}


@pytest.fixture(scope="session")
def wheel(tmp_path_factory):
    """The wheel, built with what is installed here."""
    folder = tmp_path_factory.mktemp("wheel")
    subprocess.run([sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder], cwd=ROOT, check=True)
    (path,) = folder.iterdir()
    return path


@pytest.fixture(scope="session")
def bare(wheel, tmp_path_factory):
    """The scripts' folder of an environment that holds the wheel and nothing else."""
    venv = tmp_path_factory.mktemp("environment")
    make, python = [sys.executable, "-m", "venv", venv], venv / "bin/python"
    if find_spec("pip"):
        subprocess.run([*make, "--without-pip"], check=True)
        pip = [sys.executable, "-m", "pip", "--python", python]
    else:
        subprocess.run(make, check=True)
        pip = [python, "-m", "pip"]
    subprocess.run([*pip, "--quiet", "install", "--no-deps", "--no-index", wheel], check=True)
    return venv / "bin"


@pytest.fixture
def scripts(bare):
    """The same, with the packages that are installed here."""
    (site_packages,) = bare.parent.glob("lib/python*/site-packages")
    link = site_packages / "tests_packages.pth"
    link.write_text("\n".join({sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}))
    yield bare
    link.unlink()


@pytest.fixture
def elsewhere(tmp_path):
    """A folder of somebody whose own modules have the names of ours and of our dependencies."""
    folder = tmp_path / "elsewhere"
    for name in ("service", "redis", "settings"):
        (folder / name).mkdir(parents=True)
        (folder / name / "__init__.py").write_text(f"raise SystemExit('the {name} of another project')\n")
    return folder


def run(command, *words, cwd):
    return subprocess.run([command, *words], cwd=cwd, env=ENVIRONMENT, capture_output=True, text=True, check=False)
