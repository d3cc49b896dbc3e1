"""All mutants, in the order in which they are worth trying."""

from __future__ import annotations

from collections.abc import Iterator

from mutation import code, sql
from mutation.mutant import PACKAGE, Mutant

VITAL = ("leases", "settle", "jobs", "people", "limits", "dependencies", "groups", "holds", "fleet", "schedules")
RIDERS = {
    "drivers/ops": "*", "drivers/sqlite": "jobs leases limits linking settlement",
    "drivers/postgres": "enqueueing jobs keys leases limits settlement sharing",
}  # fmt: skip


def files_of_core() -> list[str]:
    return sorted(f"core/{path.name}" for path in (PACKAGE / "core").glob("*.py"))


def files_of_sql(store: str) -> list[str]:
    """What jobs depend on first."""
    names = {path.stem for path in (PACKAGE / "drivers" / store / "sql").glob("*.sql")}
    return [f"drivers/{store}/sql/{name}.sql" for name in (*VITAL, *sorted(names - set(VITAL)))]


def files_with_riders(*stores: str) -> list[str]:
    """Operations: what travels with a change of state is a statement of theirs."""
    return [
        f"{directory}/{path.name}"
        for directory, names in RIDERS.items()
        for path in sorted((PACKAGE / directory).glob("*.py"))
        if directory.rpartition("/")[2] in stores and (names == "*" or path.stem in names.split())
    ]


def every(part: str) -> list[Mutant]:
    """Of a part, each once: two ways to the same text are one mutant."""
    return list({mutant.key: mutant for mutant in made(part)}.values())


def made(part: str) -> Iterator[Mutant]:
    if part == "core":
        for file in files_of_core():
            yield from code.mutants_of(file)
        return
    for file in files_of_sql(part):
        yield from sql.mutants_of(file)
    for file in files_with_riders(*(("ops", "sqlite") if part == "sqlite" else ("postgres",))):
        yield from code.mutants_of(file, only_skips=True)


PARTS = ("core", "sqlite", "postgres")
