"""The differences between SQL dialects in statements that are put together at run time."""

from __future__ import annotations

from typing import Final

from msgspec import Struct


class Tongue(Struct, frozen=True, kw_only=True):
    mark: str  # of a parameter, before its number
    jobs: str  # the table
    differs: str  # is different from, where null is a value
    instant: str  # a number of microseconds as an instant
    micros: str  # an instant as a number of microseconds
    ready: str
    unready: str
    texts: str  # a column is one of a batch of texts
    numbers: str
    tagged: str  # the tags hold a text
    holds: str  # a text holds a part
    indexed: str  # the index to use, where the planner is told
    aside: str  # a column that is compared and never looked up: another index must find the rows
    newest_of: str  # jobs that ended in {state}, before the place {here}
    oldest_of: str  # the same behind it
    ends: tuple[str, str]  # places before, and behind, all others
    listed: str  # the jobs whose numbers a query answers
    fence: str  # what is asked for before this is found before it is sorted


SQLITE: Final = Tongue(
    mark="?", jobs="jobs", differs="is not", instant="{}", micros="{}", ready="ready = 1", unready="ready = 0",
    texts="{} in (select value from json_each({}))", numbers="{} in (select value from json_each({}))",
    tagged="exists (select 1 from json_each(tags) where value = {})", holds="instr({}, {}) > 0", indexed=" indexed by {}",
    aside="{}", newest_of="state = '{state}'", oldest_of="state = '{state}'", ends=("", ""), listed="seq in ({})", fence="",
)  # fmt: skip
POSTGRES: Final = Tongue(
    mark="$", jobs="windlass.jobs", differs="is distinct from", instant="windlass.at({})", micros="windlass.micros({})",
    ready="ready", unready="not ready", texts="{} = any({}::text[])", numbers="{} = any({}::bigint[])",
    tagged="jsonb_exists(tags, {})", holds="strpos({}, {}) > 0", indexed="", aside="({} + 0)",
    # Without "equal to": a planner that knows nothing of the table believes that few jobs have a certain state, and would
    # rather find all of them and sort than walk along the index.
    newest_of="state >= '{state}' and (state, finished_at, seq) < ('{state}', {here})",
    oldest_of="state <= '{state}' and (state, finished_at, seq) > ('{state}', {here})",
    ends=("'-infinity', -1", "'infinity', 0"), listed="seq = any(array({}))",
    fence=" offset 0",
)  # fmt: skip
