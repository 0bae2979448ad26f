"""Tables and names of the pages hold what the code says."""

import re
from bisect import bisect_left

from pydantic import ValidationError

from service.command_line import descriptions
from service.engine.control import FIRST_ACTS, GROUP_ACTS, radius
from service.errors import ServiceError
from service.learners import REGISTRY
from service.learners.specs import ArmsSpec, RatedSpec
from service.settings import Settings
from service.store.redis import scripts as keys
from tests.support import described, vectors
from tests.support.pages import ROOT, row, rows
from tests.test_imports import ARROWS, LEAVES

SIZES = {"n_arms": 3, "dim": 2, "feasible_set": {"kind": "ball", "radius": 1.0}}


def rates_of(kind):
    """Where the rates come from in a session that gives none; where it must give some, the ways to do that."""
    sizes = {name: size for name, size in SIZES.items() if name in REGISTRY[kind].model_fields}
    try:
        learner = vectors.build({"spec": {"kind": kind} | sizes})
    except ValidationError:
        return "given, or the theorem's" if issubclass(REGISTRY[kind], RatedSpec) else "given"
    return learner.rates(learner.start())["rates"].value


def check(page, heads, expected):
    """The page's table with these heads has these rows, in this order, and no others."""
    there = rows(page, *heads)
    missing = [each for each in expected if each not in there]

    assert not missing, f"{page} lacks these rows:\n" + "\n".join(missing)
    assert there == expected, f"{page} has more rows than there should be, or another order"


def test_the_learners_are_those_of_the_registry():
    """Each row is what a learner says of itself."""
    expected = []
    for kind, cls in REGISTRY.items():
        name, _, description = cls.__doc__.splitlines()[0].partition(": ")
        information = vectors.build(vectors.traces(kind)[0]).information
        expected.append(row(f"`{kind}`", name, information, rates_of(kind), description))

    check("docs/learners.md", ("`kind`", "learner", "feedback", "rates", ""), expected)


def test_every_learner_has_its_section_over_arms_or_over_points():
    """A heading may name several kinds."""
    sections = re.split(r"^## (.+)\n", (ROOT / "docs/learners.md").read_text(), flags=re.M)
    placed = {
        (title, kind)
        for title, text in zip(sections[1::2], sections[2::2], strict=True)
        for heading in re.findall(r"^### (`.+)", text, re.M)
        for kind in re.findall(r"`(\w+)`", heading)
    }

    titles = ("Over points", "Over arms")
    expected = {(titles[issubclass(cls, ArmsSpec)], kind) for kind, cls in REGISTRY.items()}

    assert placed == expected, "docs/learners.md: each kind has a heading ### below ## Over arms or ## Over points"


def test_the_settings_are_those_of_the_code():
    expected = [
        row(f"`BANDIT_{name.upper()}`", f"`{Settings.model_fields[name].default}`", " ".join(text.split()))
        for name, text in descriptions().items()
    ]

    check("docs/settings.md", ("variable", "default", ""), expected)


def test_the_errors_are_those_of_the_code():
    kinds = ServiceError.__subclasses__()
    kinds += [each for kind in kinds for each in kind.__subclasses__() if "code" in vars(each)]
    errors = sorted(kinds, key=lambda error: (error.status, error.code))
    expected = [row(str(error.status), f"`{error.code}`", error.__doc__.splitlines()[0]) for error in errors]

    check("docs/errors.md", ("status", "`code`", ""), expected)


def test_the_interface_page_has_every_route_with_its_role():
    """As ``python -m tests.support.described`` writes it."""
    lines = rows("docs/api.md", "route", "role", "does")
    told = {call: line.split(" | ")[1] for line in lines for call in described.told_in(line)}

    assert told == described.roles(), "python -m tests.support.described writes the rows"


def test_the_deployment_page_has_every_variable_of_the_compose_file():
    used = set(re.findall(r"\$\{(\w+)", (ROOT / "docker-compose.yml").read_text()))
    told = rows("docs/deployment.md", "variable", "effect")
    named = {name for line in told for name in re.findall(r"`([A-Z_]+)`", line)}

    assert named == used


def test_the_page_of_what_is_stored_knows_every_key():
    told = re.findall(r"^\| `bandit(:[^`]+)` \|", (ROOT / "docs/stored.md").read_text(), re.M)
    spelled = re.findall(r"^``<prefix>(:.+?)``", keys.__doc__, re.M)

    assert [key.replace("{id}", "{<session id>}") for key in told] == spelled


PAGE_NAME = "docs/architecture.md"


def test_the_table_of_folders_has_every_arrow():
    """As ``tests/test_imports.py`` has them."""
    told = {}
    for line in rows(PAGE_NAME, "folder or file", "imports", "holds"):
        name, imports, _ = [cell.strip() for cell in line.split("|")[1:-1]]
        told[re.sub(r"`|/|\.py", "", name)] = set(imports.replace("`", "").split(", ")) - {""}

    assert {name for name, imports in told.items() if "leaf" in imports} == LEAVES
    assert {name: imports - {"leaf"} for name, imports in told.items()} == ARROWS | {"dashboard": set()}
    assert {path.name for path in (ROOT / "service").iterdir() if path.is_dir()} - {"__pycache__"} <= told.keys()


def acts_needed(rate, gain, share):
    """Acts until the interval of the expected difference is clear of 0."""
    better = rate * (1 + gain)
    variance = better * (1 - better) / (1 - share) + rate * (1 - rate) / share
    needed = range(FIRST_ACTS, 10**7)
    return needed[bisect_left(needed, rate - better, key=lambda acts: -radius(variance, acts, GROUP_ACTS))]


def test_the_acts_that_a_verdict_needs_are_those_of_the_formula():
    shares, rates = (0.1, 0.3, 0.5), (0.02, 0.05, 0.1)
    needed = {(rate, share): acts_needed(rate, 0.5, share) for rate in rates for share in shares}
    expected = [row(f"{100 * rate:.0f} %", *(f"{needed[rate, share]:,}" for share in shares)) for rate in rates]

    check("docs/verdict.md", ("click rate of the control", *(f"share {share}" for share in shares)), expected)
    for (rate, share), acts in needed.items():
        assert 5 < acts_needed(rate, 0.2, share) / acts < 7.2
        assert 0.24 < acts_needed(rate, 1.0, share) / acts < 0.39
