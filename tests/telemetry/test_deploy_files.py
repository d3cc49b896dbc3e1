"""The dashboard and the alerts that are shipped ask for metrics, labels and commands that exist."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from windlass.cli.commands import commands
from windlass.cli.serve import PORT
from windlass.telemetry.families import FAMILIES

DEPLOY = Path(__file__).parent.parent.parent / "deploy"
BOARD: Any = json.loads((DEPLOY / "grafana" / "windlass.json").read_text())
RULES: Any = yaml.safe_load((DEPLOY / "prometheus" / "alerts.yml").read_text())["groups"][0]["rules"]
LABELS = {series: {*family.labels, "instance", "job"} for family in FAMILIES for series in family.series}
LABELS |= {f"{f.name}_bucket": {*f.labels, "le", "instance", "job"} for f in FAMILIES if f.kind == "histogram"}
WORDS = {"label": {"queued", "dead"}, "outcome": {"retry", "fail"}}


def asked() -> Iterator[tuple[str, str]]:
    for panel in BOARD["panels"]:
        yield from ((panel["title"], target["expr"]) for target in panel["targets"])
    for variable in BOARD["templating"]["list"]:
        if variable["type"] == "query":
            yield variable["name"], variable["definition"]
    yield from ((rule["alert"], rule["expr"]) for rule in RULES)


QUESTIONS = list(asked())


@pytest.mark.parametrize(("title", "question"), QUESTIONS, ids=[title for title, _ in QUESTIONS])
def test_what_is_asked_for_is_exposed_under_this_name_and_with_these_labels(title: str, question: str) -> None:
    """The labels that an aggregation keeps must be those of a metric that it reads, and so must those that it selects."""
    names = re.findall(r"windlass_\w+", question)
    assert names, title
    for name, selected in re.findall(r"(windlass_\w+)(?:\{([^}]*)\})?", question):
        assert name in LABELS, f"{title} asks for {name}"
        for label, values in re.findall(r'(\w+)=~?"([^"]*)"', selected):
            assert label in LABELS[name], f"{title}: {name} has no {label}"
            assert label not in WORDS or set(values.split("|")) <= WORDS[label], f"{title}: {values}"
    kept = {label.strip() for found in re.findall(r"(?:by|on) \(([^)]*)\)", question) for label in found.split(",")}
    assert kept <= set.union(*(LABELS[name] for name in names)), title
    assert question.count("(") == question.count(")")


def test_a_rate_is_taken_of_counters_and_a_quantile_of_buckets_only() -> None:
    counters = {series for f in FAMILIES for series in f.series if f.kind != "gauge"}
    rates = {name for _, question in QUESTIONS for name in re.findall(r"(?:rate|increase)\((windlass_\w+)", question)}
    quantiles = {
        name for _, question in QUESTIONS for name in re.findall(r"histogram_quantile\(.*?(windlass_\w+)", question)
    }
    assert rates
    assert rates <= counters
    assert quantiles
    assert all(name.endswith("_bucket") for name in quantiles), quantiles


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule["alert"])
def test_an_alert_says_what_is_wrong_and_what_to_type(rule: Any) -> None:
    assert rule["labels"]["severity"] in ("page", "ticket")
    assert rule["annotations"]["summary"].endswith(".")
    program, *words = rule["annotations"]["command"].split()
    found = commands()
    assert program == "windlass"
    for word in words:
        if word.startswith(("-", "{")):
            break
        found = found.resolved_commands()[word]


def test_panels_do_not_overlap_and_have_numbers_of_their_own() -> None:
    taken: set[tuple[int, int]] = set()
    for panel in BOARD["panels"]:
        place = panel["gridPos"]
        cells = {(place["x"] + x, place["y"] + y) for x in range(place["w"]) for y in range(place["h"])}
        assert not taken & cells, panel["title"]
        assert place["x"] + place["w"] <= 24
        taken |= cells
    assert len({panel["id"] for panel in BOARD["panels"]}) == len(BOARD["panels"])


def test_what_is_scraped_is_where_the_commands_listen() -> None:
    scraped = yaml.safe_load((DEPLOY / "prometheus" / "scrape.yml").read_text())["scrape_configs"]
    [serve] = [one for one in scraped if one["job_name"] == "windlass"]
    assert serve["static_configs"][0]["targets"] == [f"127.0.0.1:{PORT}"]
    assert {one.get("metrics_path", "/metrics") for one in scraped} == {"/metrics"}


def test_a_comparison_with_the_past_counts_what_was_not_there_as_none() -> None:
    """Else the first hour of a queue's dead letters, in which they are news, is silent."""
    past = [(title, question) for title, question in QUESTIONS if "offset" in question]
    assert [title for title, _ in past] == ["WindlassDeadLetters"]
    for title, question in past:
        assert re.search(r"\((.*) offset 1h\) or 0 \* \1\)", question), title
