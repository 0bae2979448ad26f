"""Every name of other packages that is used beyond what they document is listed, with why, and is still there."""

from __future__ import annotations

import pytest

from tests.packaging.foreign_uses import ROOT, TREES, foreign_underscores, imports, named, used_of_bases, words
from tests.packaging.private_names import DOCUMENTED, DOCUMENTED_NAMES, PRIVATE

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


@pytest.mark.parametrize("path", TREES, ids=lambda path: str(path.relative_to(ROOT)))
def test_what_a_file_uses_of_other_packages_is_documented_or_listed(path):
    imported = {
        f"{module}:{name}" if name else module
        for module, name, _ in imports(TREES[path])
        if module not in DOCUMENTED or f"{module}:{name}" in PRIVATE
    }

    assert imported | set(used_of_bases(TREES[path])) <= KNOWN


def test_every_underscore_of_others_is_listed():
    listed = {name.replace(":", ".").rpartition(".")[2] for name in PRIVATE}

    assert [(str(path), name) for path, name in foreign_underscores() if name not in listed] == []
