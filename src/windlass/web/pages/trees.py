"""A group as an indented tree: each job below the one that it waits for longest, in the order of the group."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from msgspec import Struct

from windlass.admin.groups import EdgeView
from windlass.admin.views import JobView

DEEPEST: Final = 8  # what lies deeper is drawn there
NAMED: Final = 3  # of those that a job waits for


class Parent(Struct, frozen=True):
    """Who is waited for. `job` is None: it was pruned."""

    id: str
    job: JobView | None
    number: int | None  # its place in the group; None: it is not a member
    done: bool


class Branch(Struct, frozen=True, kw_only=True):
    """A line of the tree. `rails`: for each level above, whether another line follows there; `last`: none does here."""

    job: JobView
    number: int | None
    depth: int
    rails: tuple[bool, ...] = ()
    last: bool = False
    parents: tuple[Parent, ...] = ()
    after_all: bool = False  # it waits for every member

    @property
    def named(self) -> tuple[Parent, ...]:
        return self.parents[:NAMED]

    @property
    def unnamed(self) -> int:
        return len(self.parents) - NAMED if len(self.parents) > NAMED else 0

    @property
    def waits_for(self) -> int:
        return sum(not parent.done for parent in self.parents)


def tree(members: Sequence[JobView], others: Sequence[JobView], edges: Sequence[EdgeView]) -> list[Branch]:
    """The members, and whoever outside waits for them; what waits for all of them comes last."""
    jobs = {job.id: job for job in (*members, *others)}
    numbers = {job.id: place for place, job in enumerate(members, start=1)}
    before: defaultdict[str, dict[str, bool]] = defaultdict(dict)
    for edge in edges:
        if edge.job_id in jobs and edge.job_id != edge.parent_id:
            before[edge.job_id][edge.parent_id] = edge.done
    lines = [job.id for job in (*members, *others) if job.id in numbers or job.id in before]
    last = {line for line in lines if line not in numbers and len(numbers) > 1 and numbers.keys() <= before[line].keys()}
    depths = _depths(lines, before)
    below: defaultdict[str | None, list[str]] = defaultdict(list)
    for line in (*(line for line in lines if line not in last), *(line for line in lines if line in last)):
        inside = (
            []
            if line in last
            else [parent for parent in before[line] if parent in depths and depths[parent] < depths[line]]
        )
        above = max(inside, key=lambda parent: (depths[parent], numbers.get(parent, 0)), default=None)
        below[above].append(line)

    def branch(line: str, rails: tuple[bool, ...], is_last: bool) -> Branch:
        parents = (Parent(one, jobs.get(one), numbers.get(one), done) for one, done in before[line].items())
        ordered = sorted(parents, key=lambda one: (one.number is None, one.number or 0, one.id))
        return Branch(
            job=jobs[line], number=numbers.get(line), depth=min(len(rails), DEEPEST), rails=rails[1:DEEPEST],
            last=is_last, parents=tuple(ordered), after_all=line in last,
        )  # fmt: skip

    found: list[Branch] = []
    ahead = _children(below[None], ())
    while ahead:
        line, rails, is_last = ahead.pop()
        found.append(branch(line, rails, is_last))
        ahead += _children(below[line], (*rails[:DEEPEST], not is_last))
    return found


def _children(lines: Iterable[str], rails: tuple[bool, ...]) -> list[tuple[str, tuple[bool, ...], bool]]:
    """The last first: the list is taken from its end."""
    backwards = list(lines)[::-1]
    return [(line, rails, place == 0) for place, line in enumerate(backwards)]


def _depths(lines: Sequence[str], before: Mapping[str, Mapping[str, bool]]) -> dict[str, int]:
    """How many stand one after another above each; those who wait for each other in a circle would stand at the top."""
    inside = set(lines)
    above = {line: [parent for parent in before.get(line, ()) if parent in inside] for line in lines}
    below: defaultdict[str, list[str]] = defaultdict(list)
    for line, parents in above.items():
        for parent in parents:
            below[parent].append(line)
    missing = {line: len(parents) for line, parents in above.items()}
    known = [line for line in lines if not missing[line]]
    depths: dict[str, int] = {}
    for line in known:  # it grows by those who have been waiting for this one alone
        depths[line] = max((depths[parent] + 1 for parent in above[line]), default=0)
        for child in below[line]:
            missing[child] -= 1
            if not missing[child]:
                known.append(child)
    return dict.fromkeys(lines, 0) | depths
