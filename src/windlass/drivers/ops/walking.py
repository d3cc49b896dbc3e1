"""One stretch of a listing as one statement: along the way, so many jobs, which of them are wanted, and where it ends.

Columns come from here, values are parameters. Bounds are part of the text, because a planner that does not know how far a
walk goes believes that it goes through a tenth of the table.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, Literal

from windlass.core.failures import LINE, fingerprint, is_like, may_be_fingerprint
from windlass.core.listing import Direction, Kind, Path, Place, Wish, states_of
from windlass.drivers.ops.dialect import Dialect
from windlass.drivers.statement import Statement
from windlass.types import TERMINAL, Label

Show = Literal["numbers", "glimpses", "nothing"]

ERROR: Final = "coalesce(nullif(dead_reason, ''), last_error)"
JUDGED: Final = 4_000  # characters of an error from which its fingerprint is made
_KINDS: Final[dict[Label, str]] = {  # core/eligibility.py: label_of
    "queued": "state = 'queued' and waiting_on = 0 and parked_on is null and (run_at is null or run_at <= {now})",
    "scheduled": "state = 'queued' and waiting_on = 0 and parked_on is null and run_at > {now}",
    "blocked": "state = 'queued' and waiting_on > 0",
    "parked": "state = 'queued' and waiting_on = 0 and parked_on is not null",
    "claimed": "state = 'running' and started_at is null",
    "running": "state = 'running' and started_at is not null",
    "succeeded": "state = 'succeeded'",
    "dead": "state = 'dead'",
    "cancelled": "state = 'cancelled'",
}
_PARTS: Final[dict[str, tuple[str, str, frozenset[Label]]]] = {  # by index: what its predicate says, who is in it
    "jobs_ready": ("state = 'queued' and {ready}", "queue", frozenset({"queued"})),
    "jobs_waiting": (
        "state = 'queued' and {unready} and waiting_on = 0 and parked_on is null", "queue",
        frozenset({"queued", "scheduled"}),
    ),
    "jobs_parked": ("state = 'queued' and parked_on is not null and waiting_on = 0", "", frozenset({"parked"})),
    "jobs_blocked": ("state = 'queued' and waiting_on > 0", "queue", frozenset({"blocked"})),
    "jobs_leased": ("state = 'running'", "queue", frozenset({"claimed", "running"})),
}  # fmt: skip


class Walk:
    """What stays the same on all stretches of one search."""

    def __init__(self, db: Dialect, wish: Wish, first: Direction) -> None:
        self._db, self._tongue, self._wish = db, db.tongue, wish
        self._down = first == "newest"
        self._params: list[Any] = []
        self._may_be_mark = wish.error is not None and may_be_fingerprint(wish.error)
        self.judged = self._may_be_mark or wish.fingerprint is not None

    def is_like(self, error: str, holds: bool) -> bool:
        """core/failures.py: what no statement can tell. `holds`: the text that is asked for, if any is."""
        by_error = holds or is_like(error, self._wish.error or "")
        return by_error and (self._wish.fingerprint is None or fingerprint(error) == self._wish.fingerprint)

    # ------------------------------------------------------------------------------------------------------- statements

    def stretch(self, path: Path, after: Place | None, jobs: int, want: int, show: Show) -> Statement:
        """Rows (0, seq, at, …) for at most `want` wanted jobs, then one row (1, seq, at, looked at, wanted, created first,
        created last) for the place that was reached. Nothing at all: the way has ended."""
        self._params = []
        extra = self._shown(show)
        columns = f"seq, finished_at, created_at, {self._wanted()} as wanted{''.join(f', {c} as c{n}' for n, c in extra)}"
        walked = self._walked(path, columns, after, jobs)
        at, micros = self._tongue.micros.format("finished_at"), self._tongue.micros
        named = "".join(f", {self._told(n, show)}" for n, _ in extra)
        blank = "".join(", null" for _ in extra)
        first, last = self._order(path, forward=True), self._order(path, forward=False)
        hits = f"select * from walked where wanted order by {first} limit {want}"
        found = f"select 0, seq, {at}, 0, 0, 0, 0{named} from ({hits}) as found"
        here = (
            f"select 1, seq, {at}, (select count(*) from walked), (select count(*) from walked where wanted), "
            f"(select {micros.format('min(created_at)')} from walked), "
            f"(select {micros.format('max(created_at)')} from walked)"
            f"{blank} from (select seq, finished_at from walked order by {last} limit 1) as place"
        )
        both = f"{found} union all {here}" if show != "nothing" else here
        return Statement(f"with walked as materialized ({walked}) {both}", self._params)

    def living(self, most: int) -> Statement:
        """How many jobs are in the indexes of the living that would be read, counted up to `most` and one in each."""
        self._params = []
        parts = (f"select 1 from {self._from(index)}{_where(wheres)} limit {most + 1}" for index, wheres in self._parts())
        each = " union all ".join(f"select count(*) as jobs from ({part}) as part" for part in parts)
        return Statement(f"select sum(jobs) from ({each}) as parts", self._params)

    # -------------------------------------------------------------------------------------------------------------- ways

    def _walked(self, path: Path, columns: str, after: Place | None, jobs: int) -> str:
        order = self._order(path, forward=True)
        if path == "ended":
            ways = (self._ended(state, columns, after, jobs) for state in sorted(states_of(self._wish) or TERMINAL))
            each = " union all ".join(f"select * from ({way}) as {name}" for name, way in zip("abc", ways, strict=False))
            return f"select * from ({each}) as ended order by {order} limit {jobs}"
        here = [] if after is None else [f"seq {'<' if self._down else '>'} {self._bound(after.seq)}"]
        if path == "all":
            return f"select {columns} from {self._tongue.jobs}{_where(here)} order by {order} limit {jobs}"
        if path == "schedule":
            made = ["schedule_id is not null", f"schedule_id = {self._bound(self._wish.schedule_id)}", *here]
            return f"select {columns} from {self._from('jobs_made')}{_where(made)} order by {order} limit {jobs}"
        # For a planner that does not see how many jobs lie behind the place, their numbers would be the way to few of them.
        aside = [one.replace("seq", self._tongue.aside.format("seq"), 1) for one in here]
        each = " union all ".join(
            f"select seq from {self._from(index)}{_where([*wheres, *aside])}" for index, wheres in self._sets(path)
        )
        few = f"select seq from ({each}{self._tongue.fence}) as few order by {order} limit {jobs}"
        return f"select {columns} from {self._tongue.jobs} where {self._tongue.listed.format(few)}"

    def _sets(self, path: Path) -> list[tuple[str, list[str]]]:
        """(index, predicates) of jobs that are few enough to be read before they are sorted."""
        if path == "ids":
            return [("", [self._tongue.texts.format("id", self._bound(self._db.texts(self._wish.ids)))])]
        if path == "group":
            return [("jobs_group", ["group_id is not null", f"group_id = {self._bound(self._wish.group_id)}"])]
        return self._parts()

    def _parts(self) -> list[tuple[str, list[str]]]:
        labels = {kind.label for kind in self._wish.kinds}
        found = []
        for index, (predicate, by, inside) in _PARTS.items():
            if labels & inside:
                wheres = [predicate.format(ready=self._tongue.ready, unready=self._tongue.unready)]
                wheres += [self._among("queue", self._wish.queues)] if by and self._wish.queues else []
                if index == "jobs_waiting" and not inside <= labels:
                    now = self._tongue.instant.format(self._bound(self._wish.now))
                    wheres.append(f"run_at {'<=' if 'queued' in labels else '>'} {now}")
                found.append((index, wheres))
        return found

    def _ended(self, state: str, columns: str, after: Place | None, jobs: int) -> str:
        wish, instant = self._wish, self._tongue.instant
        here = "" if after is None else f"{instant.format(self._bound(after.at or 0))}, {self._bound(after.seq)}"
        wheres = ["finished_at is not null", self._tongue.newest_of if self._down else self._tongue.oldest_of]
        if wish.finished_from is not None:
            wheres.append(f"finished_at >= {instant.format(self._bound(wish.finished_from))}")
        if wish.finished_until is not None:
            wheres.append(f"finished_at < {instant.format(self._bound(wish.finished_until))}")
        if wish.quiet_since is not None:
            wheres.append(f"finished_at <= {instant.format(self._bound(wish.quiet_since))}")
        if after is not None:
            wheres.append(f"(finished_at, seq) {'<' if self._down else '>'} ({here})")
        way = "desc" if self._down else "asc"
        order = f"state {way}, finished_at {way}, seq {way}"
        text = _where(wheres).replace("{state}", state).replace("{here}", here or self._tongue.ends[self._down])
        # A planner that is told the number sorts all of them, should it believe that there are no more.
        return f"select {columns} from {self._from('jobs_finished')}{text} order by {order} limit (select {jobs})"

    def _order(self, path: Path, *, forward: bool) -> str:
        way = "desc" if self._down == forward else "asc"
        return f"finished_at {way}, seq {way}" if path == "ended" else f"seq {way}"

    def _from(self, index: str) -> str:
        return self._tongue.jobs + (self._tongue.indexed.format(index) if index else "")

    # ------------------------------------------------------------------------------------------------------------- tests

    def _wanted(self) -> str:
        """core/listing.py: is_wished. What a way already says of its jobs is said once more: it costs next to nothing."""
        wish, tongue, bound = self._wish, self._tongue, self._bound
        tests = [self._among(column, values) for column, values in (("queue", wish.queues), ("type", wish.types)) if values]
        names = ("org_id", "group_id", "schedule_id", "worker_id")
        tests += [f"{name} = {bound(getattr(wish, name))}" for name in names if getattr(wish, name) is not None]
        if wish.tag is not None:
            tests.append(f"tags is not null and {tongue.tagged.format(bound(wish.tag))}")
        for column, begin, end in (
            ("created_at", wish.created_from, wish.created_until), ("finished_at", wish.finished_from, wish.finished_until),
            ("failed_at", wish.failed_from, None),
        ):  # fmt: skip
            tests += [f"{column} >= {tongue.instant.format(bound(begin))}"] if begin is not None else []
            tests += [f"{column} < {tongue.instant.format(bound(end))}"] if end is not None else []
        if wish.quiet_since is not None:
            tests.append(f"coalesce(finished_at, created_at) <= {tongue.instant.format(bound(wish.quiet_since))}")
        if wish.error is not None:
            tests.append(f"{ERROR} <> ''" if self._may_be_mark else tongue.holds.format(ERROR, bound(wish.error)))
        if not wish.superseded:
            tests.append(f"dead_kind {tongue.differs} 'superseded'")
        if wish.kinds:
            tests.append(f"({' or '.join(f'({self._kind(kind)})' for kind in wish.kinds)})")
        whole = " and ".join(tests)
        return f"coalesce({whole}, {'false' if tongue.mark == '$' else '0'})" if tests else "1 = 1"

    def _kind(self, kind: Kind) -> str:
        text = _KINDS[kind.label]
        if "{now}" in text:
            text = text.format(now=self._tongue.instant.format(self._bound(self._wish.now)))
        if kind.dead_kind is not None:
            text += f" and dead_kind = {self._bound(kind.dead_kind)}"
        if kind.ran is not None:
            same = "= 'cancelled'" if kind.ran else f"{self._tongue.differs} 'cancelled'"
            text += f" and last_outcome {same}"
        return text

    def _among(self, column: str, values: Sequence[str]) -> str:
        return f"{column} in ({', '.join(map(self._bound, values))})"

    def _shown(self, show: Show) -> list[tuple[int, str]]:
        columns: list[str] = []
        if show == "glimpses":
            at = "coalesce(finished_at, failed_at, created_at)"
            columns = ["id", "type", "queue", "state", at, "updated_at", f"substr({ERROR}, 1, {LINE})"]
        if self.judged:
            holds = self._tongue.holds.format(ERROR, self._bound(self._wish.error)) if self._may_be_mark else "1 = 1"
            columns += [f"substr({ERROR}, 1, {JUDGED})", holds]
        return list(enumerate(columns))

    def _told(self, n: int, show: Show) -> str:
        return self._tongue.micros.format(f"c{n}") if show == "glimpses" and n in (4, 5) else f"c{n}"

    def _bound(self, value: Any) -> str:
        self._params.append(value)
        return f"{self._tongue.mark}{len(self._params)}"


def _where(wheres: Sequence[str]) -> str:
    return " where " + " and ".join(wheres) if wheres else ""
