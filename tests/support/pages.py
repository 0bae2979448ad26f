"""The project's Markdown pages and the code blocks in them."""

import re
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])


class Block(NamedTuple):
    """A fenced code block; ``line`` is that of its opening fence, from 1."""

    page: Path
    line: int
    language: str
    text: str

    @property
    def place(self) -> str:
        """Page and line, for messages."""
        return f"{name_of(self.page)}:{self.line}"


def name_of(page: Path) -> str:
    """The page's path below the root."""
    return page.relative_to(ROOT).as_posix()


def blocks_of(page: Path) -> list[Block]:
    """The code blocks of one page in order."""
    text = page.read_text()
    found = re.finditer(r"^( *)```([\w{}]*)\n(.*?)^\1```$", text, re.M | re.S)
    return [Block(page, text.count("\n", 0, each.start()) + 1, each[2], each[3]) for each in found]


def all_blocks(language: str) -> list[Block]:
    """The code blocks of this language on all pages."""
    return [block for page in PAGES for block in blocks_of(page) if block.language == language]


def rows(page: str, *heads: str) -> list[str]:
    """The rows of the page's table with these heads."""
    head = f"| {' | '.join(heads)} |\n|{'---|' * len(heads)}\n"
    text = (ROOT / page).read_text()
    assert head in text, f"no table with the heads {heads} in {page}"
    return text.split(head)[1].split("\n\n")[0].splitlines()


def row(*cells: str) -> str:
    """A row of a table."""
    return f"| {' | '.join(cells)} |"
