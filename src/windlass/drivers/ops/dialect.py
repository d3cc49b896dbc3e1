"""What shared operations need to know of a SQL driver: its blocks, how it takes a batch, and the few steps that differ."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from windlass.core.alterations import Alteration
from windlass.core.changes import RetryChild
from windlass.core.duties import Done, ReturnSpace
from windlass.drivers.ops.deleting import Gone
from windlass.drivers.ops.limits import Gate
from windlass.drivers.statement import Blocks, Op, Row, Statement
from windlass.drivers.tongue import Tongue
from windlass.drivers.values import Enqueued, JobQuery
from windlass.types import Micros, NewJob


class Dialect(ABC):
    sql: Blocks
    gate: Gate
    tongue: Tongue
    ours: bool = True  # the transaction at hand ends as soon as we are done; a caller's lasts as long as they like

    @abstractmethod
    def texts(self, values: Iterable[str]) -> Any:
        """A batch of texts as one parameter."""

    @abstractmethod
    def ints(self, values: Iterable[int]) -> Any:
        """A batch of numbers as one parameter."""

    @abstractmethod
    def lock(self, block: str, **params: Any) -> Op[None]:
        """Hold rows, by a block of this name, until the transaction ends. Where there is one writer, it has them all."""

    @abstractmethod
    def lock_for(self, changes: Sequence[Alteration], now: Micros) -> Op[None]:
        """Hold all that the changes may touch, in the order that everybody keeps."""

    @abstractmethod
    def hold_parents(self, ids: Sequence[str]) -> Op[list[Row]]:
        """(id asked for, id of its chain's last link, its seq, its state) of those that there are; none of them that has
        not ended does so before this transaction is over."""

    @abstractmethod
    def find(self, query: JobQuery) -> Statement:
        """A page of jobs and one more, newest first."""

    @abstractmethod
    def ended_alike(self, minute: Micros, *, unkept: bool) -> Statement:
        """Of the runs that ended in a minute how many are alike: `core.sampling.Ended`. `unkept`: some left no row."""

    @abstractmethod
    def keep_runs(self, unkept: Mapping[int, str]) -> Op[None]:
        """Give these running jobs a row of their run. By seq: what the id of the run begins with."""

    @abstractmethod
    def insert_child(self, parent_seq: int, queue: str, priority: int, child: RetryChild, now: Micros) -> Op[None]:
        """The next link of a chain, at the tail of its queue. `DuplicateId` when the id is in use."""

    @abstractmethod
    def enqueue(self, jobs: Sequence[NewJob], now: Micros) -> Op[list[Enqueued]]:
        """Jobs that were checked, inside the transaction at hand."""

    @abstractmethod
    def is_taken(self, error: Exception) -> bool:
        """Whether a write was refused because a key, or an id, is in use."""

    @abstractmethod
    def delete_ended(self, heads: Mapping[int, Micros], groups: Mapping[str, Micros | None]) -> Op[Gone]:
        """Delete whole chains, but for those whose last link, or whose group, did not end then, that others hold, and that
        others refer to."""

    @abstractmethod
    def delete_chain(self, seqs: Sequence[int]) -> Op[Gone]:
        """The same of one chain, all links of which have ended, whatever its group waits for."""

    @abstractmethod
    def delete_groups(self, groups: Sequence[str]) -> Op[str]:
        """Delete those without members, but for those that others refer to. Answers why they stay, in the store's words."""

    @abstractmethod
    def return_space(self, duty: ReturnSpace) -> Op[Done]:
        """Give room that nothing lies in back, a piece at a time."""

    @abstractmethod
    def outlast_claims(self) -> Op[bool]:
        """Wait until every claim that was under way has ended, for a moment; False when one of them has not. Those that
        begin later see what is stored now. Where there is one writer, none is under way."""
