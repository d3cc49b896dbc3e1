"""The pages of the documentation: which there are, in which order, and where their links lead.

docs/README.md is the navigation. A heading is a section, a line `- [Title](page.md): what it is for.` below it is a page.
People read it, the site and llms.txt are made of it, and a test fails when a page is not in it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parent.parent
DOCS: Final = ROOT / "docs"
INDEX: Final = DOCS / "README.md"
DECISIONS: Final = DOCS / "adr"  # listed by their own page

_FENCED: Final = re.compile(r"^(```.*?^```[^\n]*$)", re.S | re.M)
_LINK: Final = re.compile(r"(\]\()([^)\s]+)(\))|^(\[[^\]]+\]: )(\S+)($)", re.M)
_ITEM: Final = re.compile(r"- \[(?P<title>[^\]]+)\]\((?P<target>[^)]+)\): (?P<says>.*)", re.S)
_HEADING: Final = re.compile(r"^(#{1,6}) (.+?)\s*$", re.M)


@dataclass(frozen=True)
class Listed:
    """A page as the navigation has it."""

    title: str
    path: Path
    says: str


@dataclass
class Section:
    title: str
    depth: int
    pages: list[Listed] = field(default_factory=list)
    below: list[Section] = field(default_factory=list)

    def all_pages(self) -> Iterator[Listed]:
        yield from self.pages
        for section in self.below:
            yield from section.all_pages()


def navigation(index: Path = INDEX) -> list[Section]:
    """The sections of docs/README.md with their pages."""
    sections: list[Section] = []
    for block in re.split(r"\n(?=- |#)|\n\n", index.read_text()):
        heading = re.match(r"(##+) (.+)", block)
        if heading:
            section = Section(heading[2].strip(), len(heading[1]))
            (sections if section.depth == 2 else sections[-1].below).append(section)
        elif item := _ITEM.match(block):
            where = sections[-1].below[-1] if sections[-1].below else sections[-1]
            path = (index.parent / item["target"]).resolve()
            where.pages.append(Listed(item["title"], path, " ".join(item["says"].split())))
    return sections


def decisions() -> list[Path]:
    return sorted(path for path in DECISIONS.glob("*.md") if path.name != "README.md")


def title_of(page: Path) -> str:
    found = re.search(r"^# (.+)$", page.read_text(), re.M)
    assert found, f"{page} has no title"
    return found[1].strip()


def with_links(text: str, change: Callable[[str], str]) -> str:
    """The text with every link's target changed, code left as it is."""
    parts = _FENCED.split(text)
    for number in range(0, len(parts), 2):
        parts[number] = _LINK.sub(
            lambda m: (m[1] or m[4]) + change(m[2] or m[5]) + (m[3] or m[6]), parts[number]
        )  # fmt: skip
    return "".join(parts)


def targets(text: str) -> list[str]:
    found: list[str] = []

    def note(target: str) -> str:
        found.append(target)
        return target

    with_links(text, note)
    return found


def is_outside(target: str) -> bool:
    return "://" in target or target.startswith("mailto:")


def anchors(text: str) -> set[str]:
    """What `#…` may lead to: headings, by the one rule on which GitHub and the site agree, and ids that are written out."""
    prose = "".join(_FENCED.split(text)[::2])
    slugs = {_slug(heading) for _, heading in _HEADING.findall(prose)}
    return slugs | set(re.findall(r'<a id="([^"]+)">', prose))


def _slug(heading: str) -> str:
    plain = re.sub(r"\[([^\]]+)\]\([^)]*\)", r"\1", heading).replace("`", "").replace("*", "")
    return re.sub(r"[^\w\- ]", "", plain.lower()).strip().replace(" ", "-")


def broken_links(page: Path) -> list[str]:
    """Links that lead nowhere: to no file, or to no heading of it."""
    text = page.read_text()
    found = []
    for target in targets(text):
        if is_outside(target):
            continue
        name, _, anchor = target.partition("#")
        there = (page.parent / name).resolve() if name else page
        if not there.exists():
            found.append(f"{page.name}: {target} is not there")
        elif anchor and there.suffix == ".md" and anchor not in anchors(there.read_text()):
            found.append(f"{page.name}: {target} has no such heading")
    return found


def unlisted(index: Path = INDEX) -> list[Path]:
    """Pages below docs/ that the navigation does not name, and decisions that their own page does not."""
    listed = {page.path for section in navigation(index) for page in section.all_pages()}
    listed |= {(DECISIONS / target).resolve() for target in targets((DECISIONS / "README.md").read_text())}
    return sorted(page for page in index.parent.rglob("*.md") if page != index and page.resolve() not in listed)
