"""The pages hang together: each is in the navigation, every link and anchor leads somewhere, every promise has its test."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from windlass.core.states import MOVES

ROOT = Path(__file__).parent.parent.parent
sys.path.append(str(ROOT / "tools"))

from docpages import DOCS, INDEX, broken_links, is_outside, navigation, targets, unlisted  # noqa: E402

PAGES = [*ROOT.glob("*.md"), *DOCS.rglob("*.md"), *(ROOT / "bench").glob("*.md")]
HELP = re.split(r"^## windlass (.+)\n", (DOCS / "reference" / "cli.md").read_text(), flags=re.M)
COMMANDS = dict(zip(HELP[1::2], HELP[2::2], strict=True))
GROUPS = {command.split()[0] for command in COMMANDS if " " in command}
OPTIONS = {"--", "--help", "--version", "--store", "--json", "--words"}  # of every command
MOMENTS = ("deploy", "upgrade", "stuck-job", "dead-letters", "database-down", "disk-full", "lost-worker", "capacity")
RUN = {"python", "console", "worker"}
NOT_RUN = {"py", "sh", "text", "json", "http", "sql"}  # other queues' programs, what does not end, what is answered


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


def test_every_page_is_in_the_navigation() -> None:
    missing = ", ".join(name_of(page) for page in unlisted())
    assert not missing, f"{missing}: give it a line in {name_of(INDEX)}, or in docs/adr/README.md if it is a decision"


def test_a_page_that_nobody_lists_is_named(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text("# Title\n\n## Section\n\n- [Here](here.md): listed,\n  on two lines.\n")
    (tmp_path / "here.md").write_text("# Here\n")
    (tmp_path / "lost.md").write_text("# Lost\n")
    assert unlisted(tmp_path / "README.md") == [tmp_path / "lost.md"]
    [section] = navigation(tmp_path / "README.md")
    assert [(page.title, page.says) for page in section.pages] == [("Here", "listed, on two lines.")]


def test_the_navigation_names_each_page_once_and_says_what_it_is_for() -> None:
    listed = [page for section in navigation() for page in section.all_pages()]
    assert len({page.path for page in listed}) == len(listed) > 50
    assert len({page.title for page in listed}) == len(listed), "titles tell pages apart"
    assert all(page.path.exists() and page.says.endswith(".") for page in listed)


def test_there_is_a_page_for_every_moment() -> None:
    [operations] = [section for section in navigation() if section.title == "Operations"]
    assert [page.path.stem for page in operations.below[0].pages] == list(MOMENTS)


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_link_and_anchor_leads_somewhere(page: Path) -> None:
    assert broken_links(page) == []


def test_links_that_lead_nowhere_are_found(tmp_path: Path) -> None:
    text = "[a](no.md) [b](there.md#no) [c](there.md#a-job-that-works)\n\n[d]: ../no.md\n\n```text\n[e](no.md)\n```\n"
    assert targets(text) == ["no.md", "there.md#no", "there.md#a-job-that-works", "../no.md"]
    (tmp_path / "here.md").write_text(text)
    (tmp_path / "there.md").write_text("# There\n\n## A job that `works`\n")
    assert [line.split()[1] for line in broken_links(tmp_path / "here.md")] == ["no.md", "there.md#no", "../no.md"]


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_snippet_is_of_a_kind_that_is_run_or_need_not_be(page: Path) -> None:
    text = page.read_text()
    assert set(re.findall(r"^```([\w-]+)", text, re.M)) <= RUN | NOT_RUN
    for other in re.findall(r"^```py\n(.*)$", text, re.M):
        assert other.startswith("# not run: "), "a program of ours is ```python, and is run"


SPOKEN = re.compile(r"`(?:! )?windlass ([^`\n]+)`|^(?:\$ )?(?:! |[A-Z_]+=\S+ )*windlass ([^#|>&\n]+)", re.M)


def test_commands_of_pages_are_found_in_a_line_and_in_a_block() -> None:
    text = "say `windlass jobs list` or\n\n$ windlass doctor --security | less\n"
    assert [found[0] or found[1] for found in SPOKEN.findall(text)] == [
        "jobs list", "doctor --security ",
    ]  # fmt: skip
    assert sum(len(SPOKEN.findall(page.read_text())) for page in PAGES) > len(PAGES)


@pytest.mark.parametrize("page", [page for page in PAGES if page.name != "cli.md"], ids=name_of)
def test_every_command_that_a_page_names_is_there_with_its_options(page: Path) -> None:
    for found in SPOKEN.findall(page.read_text()):
        words = (found[0] or found[1]).split()
        said = {re.sub(r"[^\w-].*", "", word) for word in words if word.startswith("--")}
        words = [word.rstrip(",.;:)") for word in words if not word.startswith("-")]
        if not words or not re.fullmatch(r"[a-z-]+", words[0]):
            continue
        command = " ".join(words[:2]) if " ".join(words[:2]) in COMMANDS else words[0]
        assert command in COMMANDS or command in GROUPS, f"windlass {' '.join(words)}"
        assert said <= OPTIONS | set(re.findall(r"--[\w-]+", COMMANDS.get(command, ""))), f"windlass {command}: {said}"


def test_the_picture_of_states_draws_every_move() -> None:
    drawing = (DOCS / "assets" / "states.svg").read_text()
    told = re.findall(r"(\w+) to (\w+) by ([\w, ]+)", drawing)
    moves = {(before, cause.strip(), after) for before, after, causes in told for cause in causes.split(",")}
    assert moves == {(before or "nothing", cause, after) for (before, cause), afters in MOVES.items() for after in afters}
    assert drawing.count("<path d=") == len(told) + 1, "an arrow for each, and its head"


PROMISES = [
    (page, line)
    for page in (ROOT / "README.md", DOCS / "design" / "guarantees.md")
    for line in page.read_text().splitlines()
    if line.startswith("|") and re.search(r"`[tT]est\w+`", line)
]


@pytest.mark.parametrize(("page", "line"), PROMISES, ids=lambda one: one.name if isinstance(one, Path) else one[2:40])
def test_every_promise_names_a_test_that_exists(page: Path, line: str) -> None:
    named = dict(re.findall(r"^\[([^\]]+)\]: (\S+)$", page.read_text(), re.M))
    files = [*targets(line), *(named[name] for name in re.findall(r"\]\[([\w-]+)\]", line))]
    code = "".join(one.read_text() for file in files if (one := page.parent / file).suffix == ".py")
    [test] = re.findall(r"`([tT]est\w+)`", line)
    assert re.search(rf"\bdef {test}\(|^(class )?{test}\b", code, re.M), f"there is no {test} in {files}"


def test_there_are_promises() -> None:
    assert len(PROMISES) > 25


def test_every_rival_is_dated_and_has_a_source() -> None:
    text = (DOCS / "design" / "comparison.md").read_text()
    assert re.search(r"As of \w+ 20\d\d", text)
    told = re.findall(r"^\*\*([\w ]+)\.\*\* (.*?)(?=^\*\*|^## )", text.split("## One by one")[1], re.S | re.M)
    assert len(told) == 11
    named = dict(re.findall(r"^\[([^\]]+)\]: (\S+)$", text, re.M))
    for rival, words in told:
        assert "Better:" in words, f"{rival}: where it is better than us"
        assert "Otherwise:" in words
        sources = [*targets(words), *(named[name] for name in re.findall(r"\]\[([\w-]+)\]", words))]
        assert any(map(is_outside, sources)), f"{rival} has no source"


@pytest.mark.full
def test_the_site_is_built_and_nothing_on_it_is_fetched_from_elsewhere(tmp_path: Path) -> None:
    """Strictly: a link or an anchor that leads nowhere would fail it."""
    site = tmp_path / "site"
    done = subprocess.run(
        [sys.executable, ROOT / "tools" / "docsite.py", site], capture_output=True, text=True, timeout=200
    )
    assert done.returncode == 0, done.stdout + done.stderr
    for section in navigation():
        for page in section.all_pages():
            assert page.title in (site / "llms.txt").read_text()
    made = [*site.rglob("*.html")]
    assert len(made) > len(PAGES)
    for html in made:
        assert not re.findall(r'<(?:script|img|link)[^>]+(?:src|href)="?https?://[^">]+', html.read_text()), html
    assert (site / "search.json").stat().st_size > 100_000
    assert (site / "reference" / "openapi.json").exists()
