"""Build the documentation as a site, strictly: a link or an anchor that leads nowhere fails the build.

python tools/docsite.py            into site/ (open it with: python -m http.server -d site)
python tools/docsite.py DIRECTORY  somewhere else

Pages are copied to a place of their own first, since they also link to what is not documentation: other pages of the
repository come along, and a source file becomes a page that shows it. So nothing on the site leads out of it that could
stay, and nothing is fetched when it is read.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

from docpages import DECISIONS, DOCS, INDEX, ROOT, Listed, Section, decisions, is_outside, navigation, title_of, with_links

from windlass.web.openapi import described
from windlass.web.routes import API

CONFIG: Final = DOCS / "zensical.toml"
MARK: Final = ROOT / "src" / "windlass" / "web" / "static" / "mark.svg"
LANGUAGES: Final = {
    ".py": "python",
    ".sql": "sql",
    ".sh": "bash",
    ".yml": "yaml",
    ".yaml": "yaml",
    ".json": "json",
    ".toml": "toml",
}
PICTURES: Final = (".png", ".svg", ".css", ".js")
DRAWING: Final = re.compile(r"^!\[[^\]]*\]\(([^)]+\.svg)\)$", re.M)
ABOUT: Final = (
    "A durable job queue and scheduler for Python: one set of semantics on memory, SQLite or PostgreSQL; leases with "
    "fencing, dead letters, schedules, groups, limits, an HTTP API and a dashboard. No broker."
)


class Stage:
    """The pages on their way to the site, with links that are right there."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.done: dict[Path, Path] = {}
        self.waiting: list[Path] = []

    def where(self, path: Path) -> Path:
        """The place of a file of the repository on the site; it is taken along if it was not."""
        if path not in self.done:
            self.done[path] = self._name(path)
            self.waiting.append(path)
        return self.done[path]

    def _name(self, path: Path) -> Path:
        if path == INDEX:
            return Path("index.md")
        if path.is_relative_to(DOCS) and (path.suffix == ".md" or path.suffix in PICTURES):
            return path.relative_to(DOCS).with_name("index.md" if path.name == "README.md" else path.name)
        inside = path.relative_to(ROOT)
        if path.suffix == ".md":
            return Path("project") / inside
        if path.suffix in PICTURES:
            return Path("assets") / inside
        return Path("source") / f"{inside}.md"

    def fill(self, first: list[Path]) -> None:
        for path in first:
            self.where(path)
        while self.waiting:
            path = self.waiting.pop()
            there = self.place / self.done[path]
            there.parent.mkdir(parents=True, exist_ok=True)
            if path.suffix in PICTURES:
                shutil.copy(path, there)
            else:
                there.write_text(self._page(path))

    def _page(self, path: Path) -> str:
        if path.suffix == ".md":
            text = path.read_text()
            bare = "" if "\n## " in text else "---\nhide:\n  - toc\n---\n\n"  # nothing to list: the room is the page's
            drawn = DRAWING.sub(
                lambda found: (path.parent / found[1]).read_text(), text
            )  # inside of it, it has its colours
            return bare + with_links(drawn, lambda target: self._link(path, target))
        shown = f"---\nsearch:\n  exclude: true\n---\n\n# {path.relative_to(ROOT)}\n\n"
        if path.is_dir():
            names = sorted(one.name for one in path.iterdir() if one.name != "__pycache__")
            return shown + "".join(f"- `{name}`\n" for name in names)
        language = LANGUAGES.get(path.suffix, "text")
        return f'{shown}````{language} linenums="1"\n{path.read_text().rstrip()}\n````\n'

    def _link(self, page: Path, target: str) -> str:
        name, hash_, anchor = target.partition("#")
        if is_outside(target) or not name:
            return target
        there = self.where((page.parent / name).resolve())
        if there.parts[0] == "source":  # a line of it: as the builder numbers them
            anchor = re.sub(r"^L(\d+)$", r"__codelineno-0-\1", anchor)
        return Path(os.path.relpath(there, self.where(page).parent)).as_posix() + hash_ + anchor


def configured(stage: Stage, sections: list[Section]) -> str:
    """The settings with the navigation in them."""

    def entry(page: Listed) -> str:
        if page.path == DECISIONS / "README.md":
            inside = [f'"{stage.where(page.path)}"']
            inside += [f"{{{json.dumps(title_of(one))} = {json.dumps(str(stage.where(one)))}}}" for one in decisions()]
            return f"{{{json.dumps(page.title)} = [{', '.join(inside)}]}}"
        return f"{{{json.dumps(page.title)} = {json.dumps(str(stage.where(page.path)))}}}"

    def folder(section: Section) -> str:
        inside = [*map(entry, section.pages), *map(folder, section.below)]
        return f"{{{json.dumps(section.title)} = [{', '.join(inside)}]}}"

    nav = ", ".join(['{"Home" = "index.md"}', *map(folder, sections)])
    return CONFIG.read_text().replace("[project]\n", f"[project]\nnav = [{nav}]\n", 1)


def llms(stage: Stage, sections: list[Section]) -> str:
    """llms.txt: what there is, for whoever reads by program. Each page is there as Markdown, too."""
    lines = ["# Windlass", "", f"> {ABOUT}", ""]
    for section in sections:
        lines += [f"## {section.title}", ""]
        lines += [f"- [{page.title}]({stage.where(page.path).as_posix()}): {page.says}" for page in section.all_pages()]
        lines += [""]
    lines += ["## Data", "", "- [OpenAPI](reference/openapi.json): every endpoint with its types.", ""]
    return "\n".join(lines)


def build(into: Path) -> int:
    """Answers the exit code of the builder. What was in the directory is gone."""
    sections = navigation()
    with tempfile.TemporaryDirectory() as place:
        stage = Stage(Path(place) / "pages")
        config = Path(place) / "zensical.toml"
        config.write_text(configured(stage, sections))
        stage.fill([INDEX, *(one for one in DOCS.rglob("*") if one.is_file() and one != CONFIG)])
        shutil.copy(MARK, stage.place / "assets" / MARK.name)
        http = stage.place / "reference" / "http.md"
        http.write_text(
            http.read_text().replace(
                "`/api/openapi.json`", "`/api/openapi.json`, and here it is: [openapi.json](openapi.json)"
            )
        )
        (stage.place / "reference" / "openapi.json").write_text(json.dumps(described(API), indent=1))
        done = subprocess.run(
            [sys.executable, "-m", "zensical", "build", "--strict", "--clean", "-f", str(config)],
            cwd=place, env={**os.environ, "NO_COLOR": "1"},
        )  # fmt: skip
        built = Path(place) / "site"
        if done.returncode == 0:
            (built / "llms.txt").write_text(llms(stage, sections))
            for page in stage.place.rglob("*.md"):
                shutil.copy(page, built / page.relative_to(stage.place))
            shutil.rmtree(into, ignore_errors=True)
            shutil.copytree(built, into)
    return done.returncode


if __name__ == "__main__":
    sys.exit(build(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "site"))
