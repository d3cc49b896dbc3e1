"""Deleting ended jobs although rows of others may refer to some of them: an application's table with a foreign key.
What others do not let go is found by halves, and left, so that it keeps nothing else."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence, Set
from typing import Any, Final, NamedTuple

from windlass.drivers.statement import Op, Row

PATIENCE: Final = 10  # pieces of which it turned out that one has to wait; of later ones no halves are tried

Link = tuple[int, int, str | None]  # the head of its chain, its seq, its group


class Gone(NamedTuple):
    groups: Sequence[str | None] = ()  # of each link that was deleted
    left: Set[int] = frozenset()  # heads of chains that stayed
    refused: str = ""  # in the store's words, why rows of others do not let some of them go


class Refusal(NamedTuple):
    words: str  # empty: somebody holds what would have to change


def delete_chains(
    links: Iterable[Link], delete: Callable[[list[int]], Op[list[Row]]], refusal: Callable[[Exception], Refusal | None]
) -> Op[Gone]:
    """Delete chains; those of one group stay together. `delete` must leave no trace when it fails; `refusal` tells
    whether rows of others were the reason."""
    pieces: dict[int | str, list[Link]] = {}
    for link in links:
        pieces.setdefault(link[0] if link[2] is None else link[2], []).append(link)
    rest: list[list[list[Link]]] = [list(pieces.values())]
    groups: list[str | None] = []
    left: set[int] = set()
    words, patience = "", PATIENCE
    while rest:
        some = rest.pop()
        try:
            rows: list[Any] = yield from delete([seq for piece in some for _, seq, _ in piece])
        except Exception as error:
            told = refusal(error)
            if told is None:
                raise
            words, patience = words or told.words, patience - (not told.words)
            if len(some) == 1 or (patience < 0 and not told.words):
                left.update(head for piece in some for head, _, _ in piece)
            else:
                rest += [some[len(some) // 2 :], some[: len(some) // 2]]
        else:
            groups += [row[0] for row in rows]
    return Gone(groups, left, words)


def delete_emptied(
    groups: Sequence[str], delete: Callable[[list[str]], Op[list[Row]]], refusal: Callable[[Exception], Refusal | None]
) -> Op[str]:
    """Delete the rows of groups; one that others refer to stays, without members. Answers why, in the store's words."""
    links = [(n, n, None) for n in range(len(groups))]
    return (yield from delete_chains(links, lambda some: delete([groups[n] for n in some]), refusal)).refused
