"""What retention lets go in one bite: values → statements. `core/retention.py` has the rules.

A bite looks at so many old jobs and goes on from there the next time, because what stays, the members of a group that one
of them keeps, may be far more than what goes. Of a group it is asked once a bite whether it may go; of a large one the
answer is remembered, so that its members are not walked over in each of the bites in which they go. Who brings a member
back, or begins to need one, takes the answer away.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from windlass.clock import SECOND
from windlass.core.duties import Done, Prune
from windlass.core.retention import kept_for
from windlass.drivers.ops.deleting import Gone
from windlass.drivers.ops.dialect import Dialect
from windlass.drivers.ops.usage import watermark
from windlass.drivers.rows import note_in, to_json
from windlass.drivers.statement import Op, Row
from windlass.types import Micros, State

VISITS: Final = 10  # times as many as may go: old jobs, and members of their groups, that a bite looks at
FEWEST: Final = 1_000  # of those
LARGE: Final = 1_000  # members; what was found of a group of more is remembered
BELIEVED: Final = 600 * SECOND  # that nothing keeps such a group; longer than it takes to delete one
KEY: Final = "retention_place"
START: Final = (-1, 0)
LAST: Final = 2**63 - 1

Place = tuple[Micros, int]  # finished_at and seq


class Places(msgspec.Struct, frozen=True):
    """How far the bites of one Prune have come, by state; another Prune begins anew."""

    keep: tuple[Micros | None, Micros | None, Micros | None]
    since: Micros = 0  # when the first of them was; what was found of groups before, others have found, by other rules
    at: dict[State, Place] = {}


def prune(db: Dialect, duty: Prune, now: Micros) -> Op[Done]:
    said = yield from _said(db)
    keep = (duty.succeeded, duty.cancelled, duty.dead)
    before = said if said is not None and said.keep == keep else Places(keep, now)
    bite = Bite(db, duty, now, before.since, (yield from watermark(db.sql)))
    found: list[tuple[Micros, int, State]] = []
    at: dict[State, Place] = {}
    for state, cutoff in bite.cutoffs.items():
        if cutoff is not None:
            rows, place = yield from bite.candidates(state, cutoff, before.at.get(state, START))
            found += [(ended, seq, state) for ended, seq, _ in rows]
            at |= {} if place is None else {state: place}
    heads = sorted(found)[: duty.limit]
    more = bool(at) or len(heads) == duty.limit
    at = {**before.at, **(at if len(found) <= duty.limit else {})}  # else some of them would be left behind
    gone = (yield from db.delete_ended({seq: ended for ended, seq, _ in heads}, bite.ended)) if heads else Gone()
    if gone.left:  # those would be all that later bites find
        for ended, seq, state in heads:
            at[state] = max(at.get(state, START), (ended, seq))
    after = replace(before, at=at if more else {})
    if after != said:
        yield db.sql.set_duty_place(duty=KEY, place=msgspec.json.encode(after).decode())
    groups = {group for group in gone.groups if group is not None}
    refused = (yield from db.delete_groups(sorted(groups))) if groups else ""
    if bite.findings:
        yield db.sql.remember_groups(found=to_json(bite.findings))
    return Done(len(gone.groups), more=more, refused=gone.refused or refused)


def _said(db: Dialect) -> Op[Places | None]:
    said = yield db.sql.duty_place(duty=KEY)
    return note_in(said[0][0], Places) if said else None


class Bite:
    """What is known of groups while one bite looks at jobs."""

    def __init__(self, db: Dialect, duty: Prune, now: Micros, since: Micros, counted: Micros | None) -> None:
        self.cutoffs: dict[State, Micros | None] = {
            state: None if kept is None else now - kept for state, kept in kept_for(duty).items()
        }
        self.ended: dict[str, Micros | None] = {}  # when the groups did, as it was before their members were looked at
        self.findings: dict[str, int] = {}  # of large groups: who keeps them, or when it was that nobody did
        self._asked: dict[str, Any] = dict(self.cutoffs) | {"watermark": counted}
        self._db = db
        self._limit = duty.limit
        self._visits = max(VISITS * duty.limit, FEWEST)
        self._now = now
        self._since = max(since, now - BELIEVED + 1)  # what was found of large groups before that is not believed
        self._held: dict[str, bool] = {}
        self._members = 0  # of the groups that were walked

    def candidates(self, state: State, cutoff: Micros, after: Place) -> Op[tuple[list[Row], Place | None]]:
        """Heads of one state that may go, the oldest first; and how far was looked, if there is more behind."""
        db, self._members = self._db, 0
        asked = {"state": state, "after_at": after[0], "after_seq": after[1]}
        cut = yield db.sql.prune_edge(visits=self._visits, **asked, **self.cutoffs)
        edge: Place = (cut[0][0], cut[0][1]) if cut else (cutoff, LAST)
        asked |= {"edge_at": edge[0], "edge_seq": edge[1], "limit": self._limit, **self._asked}
        found: list[Row] = []
        while True:
            held = db.texts(sorted(group for group, stays in self._held.items() if stays))
            rows = yield db.sql.prunable(held=held, **asked)
            unknown = dict.fromkeys(group for *_, group in rows if group is not None and group not in self._held)
            left = (yield from self._judge(list(unknown))) if unknown else set[str]()
            looked = next((n for n, row in enumerate(rows) if row[2] in left), len(rows))
            found += [row for row in rows[:looked] if not self._held.get(row[2], False)]
            if len(found) >= self._limit:
                return found[: self._limit], None
            if looked < len(rows):
                return found, (rows[looked][0], rows[looked][1] - 1)
            if len(rows) < self._limit:
                return found, edge if cut else None
            asked |= {"after_at": rows[-1][0], "after_seq": rows[-1][1]}  # each is looked at once, whatever stays of them

    def _judge(self, groups: Sequence[str]) -> Op[set[str]]:
        """Which of these groups may go. Answers those that this bite has no time for."""
        db = self._db
        known = {row[0]: row[1:] for row in (yield db.sql.group_verdicts(groups=db.texts(groups)))}
        found = {group: found for group, (_, found, _) in known.items() if found is not None}
        self.ended |= {group: ended for group, (*_, ended) in known.items()}
        named = sorted(seq for seq in found.values() if seq > 0)
        keepers = {row[0] for row in (yield db.sql.keepers(seqs=db.ints(named), **self._asked))} if named else set()
        walked: list[str] = []
        left: set[str] = set()
        for group in groups:
            before, members = found.get(group), max(known.get(group, (1, None))[0], 1)
            if before is not None and (before in keepers or -self._now <= before <= -self._since):
                self._held[group] = before > 0
            elif self._members and self._members + members > self._visits:
                left.add(group)
            else:
                self._members += members
                walked.append(group)
        yield from self._walk(walked, {group: row[0] for group, row in known.items()})
        return left

    def _walk(self, groups: Sequence[str], totals: dict[str, int]) -> Op[None]:
        db, kept_by = self._db, dict[str, int]()
        if groups:
            kept_by |= dict((yield db.sql.kept_by_age(groups=db.texts(groups), **self.cutoffs)))
        old = [group for group in groups if group not in kept_by]
        if old:
            kept_by |= dict((yield db.sql.kept_by_need(groups=db.texts(old), watermark=self._asked["watermark"])))
        for group in groups:
            self._held[group] = group in kept_by
            if totals.get(group, 0) > LARGE:
                self.findings[group] = kept_by.get(group, -self._now)
