"""What follows from the routes and is kept beside them: ``python -m tests.support.described`` writes it.

It adds a row for each new route to the table of docs/api.md, with the first sentence of its docstring, takes out
the rows of routes that are gone, and writes docs/openapi.json, with which ``.ci/guard`` compares.
"""

import json
import re
from pathlib import Path

from starlette.routing import Mount

from service.api.routes import ROUTES
from service.api.runtime import ADMINS, CLIENTS, READERS, VIEWERS, access_of
from service.app import create_app
from service.settings import Settings

ROOT = Path(__file__).parents[2]
PAGE, OPENAPI = ROOT / "docs/api.md", ROOT / "docs/openapi.json"
ROLES = {VIEWERS: "any", CLIENTS: "client", READERS: "reader", ADMINS: "admin"}


def roles() -> dict[tuple[str, str], str]:
    """Return the role that each route asks for, by method and path; HEAD is named where it is described."""
    return {
        (method, route.path): "none" if access_of(route).keyless else ROLES[access_of(route).roles]
        for route in ROUTES
        if not isinstance(route, Mount)
        for method in sorted(route.methods)
        if method != "HEAD" or (route.methods == {"HEAD"} and route.include_in_schema)
    }


def told_in(line: str) -> list[tuple[str, str]]:
    """Return the methods and paths that a row of the page names."""
    return re.findall(r"`([A-Z]+) ([^`]+)`", line.split(" | ")[0]) if line.startswith("| `") else []


def main() -> None:
    expected = roles()
    page = PAGE.read_text().splitlines()
    lines = [line for line in page if not (told := told_in(line)) or set(told) & expected.keys()]
    known = {call for line in lines for call in told_in(line)}
    last = max(place for place, line in enumerate(lines) if told_in(line)) + 1
    documents = {(m, r.path): r.endpoint.__doc__ for r in ROUTES if not isinstance(r, Mount) for m in r.methods}
    for (method, path), role in expected.items():
        if (method, path) not in known:
            does = (documents[method, path] or "").partition(".")[0]
            lines.insert(last, f"| `{method} {path}` | {role} | {does[:1].lower()}{does[1:]} |")
    PAGE.write_text("\n".join(lines) + "\n")
    described = create_app(Settings(store_url="memory://")).openapi()
    OPENAPI.write_text(json.dumps(described, indent=1, sort_keys=True) + "\n")


if __name__ == "__main__":
    main()
