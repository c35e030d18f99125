"""How the branches of a skeleton go on into one another where they meet.

A skeleton knows pixels, not pens: where two strokes cross it shows several branches, at a blunt end a fork,
in a sharp corner a stub. Here such accidents are cleared away, and each branch finds the one that
continues it most smoothly.
"""

from collections import defaultdict
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from quillpost.rendering.handwriting.outlines import Floats, distances_to

# Lengths in pen radii.
_SPUR = 1.35
_TIP = 2.8
_BRIDGE = 1.6
_CROSSING_BRIDGE = 3.5
_TRIM = 0.9
_BENT = 3.5
_SIGHT = 2.2
_WIDE = 1.15

# Cosines between the outward directions of two ends: -1 is straight on.
_SMOOTH = -0.25
_CROSSING = -0.6
_HAIRPIN = 0.2

End = tuple[int, int]
"""A branch and which of its ends: 0 is where it starts, 1 where it stops."""


@dataclass(frozen=True, slots=True)
class Branch:
    """A stretch of skeleton from node to node; a closed one has no nodes."""

    path: Floats
    start: int
    stop: int
    closed: bool = False

    @property
    def length(self) -> float:
        return float(np.hypot(*np.diff(self.path, axis=0).T).sum())

    def node(self, side: int) -> int:
        return self.stop if side else self.start

    def from_end(self, side: int) -> Floats:
        return self.path[::-1] if side else self.path


@dataclass(frozen=True, slots=True)
class Line:
    """A path that one movement of the pen could have drawn. `meets` says which of its ends touch others."""

    path: Floats
    closed: bool
    meets: tuple[bool, bool]


def lines_of(branches: list[Branch], edge: Floats, pen: float) -> list[Line]:
    """The branches of one letter, cleared and strung together.

    `edge` are points close together all along its outline, `pen` is the radius of its strokes.
    """
    branches, tips = _without_spurs(branches, pen)
    return _Junctions(branches, tips, edge, pen).lines()


def _without_spurs(branches: list[Branch], pen: float) -> tuple[list[Branch], dict[int, Floats]]:
    """Drop the short stubs at nodes; their tips are returned, for a corner reaches that far."""
    at_node: dict[int, list[End]] = defaultdict(list)
    for number, branch in enumerate(branches):
        if not branch.closed:
            at_node[branch.start].append((number, 0))
            at_node[branch.stop].append((number, 1))
    dropped: set[int] = set()
    tips: dict[int, Floats] = {}
    for node, ends in sorted(at_node.items()):
        if len(ends) < 3:
            continue
        stubs = {end: branches[end[0]].length for end in ends if len(at_node[_far_node(branches, end)]) == 1}
        spurs = [end for end, length in stubs.items() if length < _SPUR * pen]
        if len(ends) == 3 and len(stubs) == 1 and min(stubs.values()) < _TIP * pen:
            [(number, side)] = stubs
            others = [end for end in ends if end[0] != number]
            if len({_far_node(branches, end) for end in others}) == 1 or _is_hairpin(branches, others, pen):
                spurs = [(number, side)]
                tips[node] = branches[number].from_end(1 - side)[0]
        if len(spurs) == len(ends):
            spurs = sorted(spurs, key=lambda end: (stubs[end], end))[:-2]
        dropped.update(number for number, _ in spurs)
    return [branch for number, branch in enumerate(branches) if number not in dropped], tips


def _far_node(branches: list[Branch], end: End) -> int:
    return branches[end[0]].node(1 - end[1])


def _is_hairpin(branches: list[Branch], ends: list[End], pen: float) -> bool:
    """Do two branches leave their common node in much the same direction?"""
    first, second = (
        path[min(int(np.searchsorted(_distances(path), _SIGHT * pen)), len(path) - 1)] - path[0]
        for path in (branches[number].from_end(side) for number, side in ends)
    )
    size = float(np.hypot(*first) * np.hypot(*second))
    return float(first[0] * second[0] + first[1] * second[1]) > _HAIRPIN * size


class _Junctions:
    """The places of one letter where branches meet, and which of their ends belong together.

    `bent` says for each branch how many points at its start and at its stop are not to be trusted.
    """

    def __init__(self, branches: list[Branch], tips: dict[int, Floats], edge: Floats, pen: float) -> None:
        self.branches = branches
        self.edge = edge
        self.tips = tips
        self.pen = pen
        self.directions = {
            (number, side): self._direction(branch.from_end(side))
            for number, branch in enumerate(branches)
            for side in (0, 1)
            if not branch.closed
        }
        self.clusters: dict[int, int] = {}
        self.bridges: set[int] = set()
        self._contract_bridges()
        self.ends_at: dict[int, list[End]] = defaultdict(list)
        for end in self.directions:
            if end[0] not in self.bridges:
                self.ends_at[self._cluster(end)].append(end)
        self.bent = [
            tuple(
                self._bent_stretch((number, side)) if self._is_crowded((number, side)) else 0
                for side in (0, 1)
            )
            if not branch.closed
            else (0, 0)
            for number, branch in enumerate(branches)
        ]
        self.directions |= {
            (number, side): self._direction(branches[number].from_end(side), self.bent[number][side])
            for number, side in self.directions
            if number not in self.bridges
        }
        self.mates = self._mates()

    def lines(self) -> list[Line]:
        """Open lines first from their loose ends, then what only goes round."""
        lines = [
            Line(branch.path, branch.closed, (False, False)) for branch in self.branches if branch.closed
        ]
        waiting = dict.fromkeys(number for number, _ in self.directions if number not in self.bridges)
        loose = [end for end in self.directions if end[0] in waiting and end not in self.mates]
        for start in [*loose, *((number, 0) for number in list(waiting))]:
            if start[0] in waiting:
                lines.append(self._line_from(start, waiting))
        return lines

    def _line_from(self, start: End, waiting: dict[int, None]) -> Line:
        pieces: list[Floats] = []
        end: End | None = start
        last = start
        while end is not None and end[0] in waiting:
            del waiting[end[0]]
            pieces.append(self._trimmed(end))
            last = (end[0], 1 - end[1])
            end = self.mates.get(last)
            if end is not None and end[0] in waiting:
                pieces.append(self._passage(last, end))
        closed = end is not None and end == start
        if closed:
            pieces += [self._passage(last, start), pieces[0][:1]]
            return Line(np.concatenate(pieces), True, (False, False))
        return Line(np.concatenate(pieces), False, (self._meets(start), self._meets(last)))

    def _trimmed(self, end: End) -> Floats:
        """The branch from this end on, without the stretches that the crossing of other ink has bent.

        A loose end is kept: it marks where the line touches the others.
        """
        number, side = end
        path = self.branches[number].from_end(side)
        first, last = self.bent[number][:: -1 if side else 1]
        trimmed: Floats = path[first : len(path) - last]
        if end not in self.mates and first:
            trimmed = np.concatenate([path[:1], trimmed])
        if (number, 1 - side) not in self.mates and last:
            trimmed = np.concatenate([trimmed, path[-1:]])
        return trimmed

    def _passage(self, one: End, other: End) -> Floats:
        """The way from one branch into the next: round the corner, or in a smooth curve."""
        corner = self.tips.get(self._node(one))
        if corner is not None:
            return corner[None]
        start, stop = (
            self.branches[number].from_end(side)[self.bent[number][side]] for number, side in (one, other)
        )
        gap = float(np.hypot(*(stop - start)))
        leave, arrive = gap * self.directions[one], -gap * self.directions[other]
        t = np.linspace(0, 1, max(2, int(gap / 4)))[1:-1, None]
        rest = 1 - t
        passage: Floats = (
            rest * rest * (1 + 2 * t) * start
            + t * t * (3 - 2 * t) * stop
            + t * rest * (rest * leave - t * arrive)
        )
        return passage

    def _bent_stretch(self, end: End) -> int:
        """How many points at this end run where the ink of several strokes lies together."""
        path = self.branches[end[0]].from_end(end[1])
        along = _distances(path)
        near = int(np.searchsorted(along, min(_BENT * self.pen, 0.3 * along[-1])))
        wide = np.flatnonzero(distances_to(self.edge, path[:near]) > _WIDE * self.pen)
        least = int(np.searchsorted(along, min(_TRIM * self.pen, 0.25 * along[-1])))
        return max(least, int(wide[-1]) + 1 if len(wide) else 0)

    def _contract_bridges(self) -> None:
        """Nodes with only a short bridge between them are one crossing, which thinning has torn in two."""
        parents: dict[int, int] = {}

        def root(node: int) -> int:
            while parents.get(node, node) != node:
                node = parents[node]
            return node

        at_node: dict[int, list[End]] = defaultdict(list)
        for number, side in self.directions:
            at_node[self._node((number, side))].append((number, side))
        for number, branch in enumerate(self.branches):
            if branch.closed or branch.start == branch.stop:
                continue
            if min(len(at_node[branch.start]), len(at_node[branch.stop])) < 3:
                continue
            if branch.length < _BRIDGE * self.pen or (
                branch.length < _CROSSING_BRIDGE * self.pen and self._is_crossing(number, at_node)
            ):
                self.bridges.add(number)
                parents[root(branch.start)] = root(branch.stop)
        for node in at_node:
            self.clusters[node] = root(node)

    def _is_crossing(self, bridge: int, at_node: dict[int, list[End]]) -> bool:
        """Do two strokes cross at a shallow angle here, and share the bridge?"""
        here, there = (
            [end for end in at_node[self.branches[bridge].node(side)] if end[0] != bridge] for side in (0, 1)
        )
        if len(here) != 2 or len(there) != 2:
            return False
        ways = (zip(here, there, strict=True), zip(here, reversed(there), strict=True))
        return any(max(self._cosine(one, other) for one, other in way) < _CROSSING for way in ways)

    def _mates(self) -> dict[End, End]:
        """Which end each end goes on into; the straightest continuations choose first."""
        mates: dict[End, End] = {}
        for ends in self.ends_at.values():
            pairs = sorted((self._cosine(one, other), one, other) for one, other in combinations(ends, 2))
            for cosine, one, other in pairs:
                if one in mates or other in mates:
                    continue
                if cosine < _SMOOTH or len(ends) == 2:
                    mates[one], mates[other] = other, one
        return mates

    def _direction(self, path: Floats, bent: int | None = None) -> Floats:
        """Out of the end of a branch, judged from where the meeting of strokes no longer bends it."""
        along = _distances(path)
        near = int(np.searchsorted(along, min(_TRIM * self.pen, 0.25 * along[-1]))) if bent is None else bent
        far = min(int(np.searchsorted(along, along[near] + _SIGHT * self.pen)), len(path) - 1)
        outward = path[near] - path[far]
        size = float(np.hypot(*outward))
        return outward / size if size else np.zeros(2)

    def _cosine(self, one: End, other: End) -> float:
        first, second = self.directions[one], self.directions[other]
        return float(first[0] * second[0] + first[1] * second[1])

    def _is_crowded(self, end: End) -> bool:
        return len(self.ends_at[self._cluster(end)]) > 2 or self._node(end) in self.tips

    def _meets(self, end: End) -> bool:
        return len(self.ends_at[self._cluster(end)]) > 1

    def _node(self, end: End) -> int:
        return self.branches[end[0]].node(end[1])

    def _cluster(self, end: End) -> int:
        return self.clusters[self._node(end)]


def _distances(path: Floats) -> Floats:
    """How far each point is from the first, along the path."""
    return np.concatenate([[0.0], np.cumsum(np.hypot(*np.diff(path, axis=0).T))])
