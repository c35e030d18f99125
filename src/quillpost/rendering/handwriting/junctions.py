"""How branches of a skeleton continue where strokes meet.

A skeleton shows several branches at a crossing, a fork at a blunt end, a stub in a corner. Those are removed, and
each branch finds its smoothest continuation.
"""

from collections import defaultdict
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from quillpost.rendering.handwriting.outlines import Floats, distances_to_outline

# Lengths in pen radii.
_MAX_SPUR = 1.35
_MAX_TIP = 2.8
_MAX_BRIDGE = 1.6
_MAX_CROSSING_BRIDGE = 3.5
_TRIM_LENGTH = 0.9
_MAX_BENT_LENGTH = 3.5
_DIRECTION_LENGTH = 2.2
_WIDE_INK_RATIO = 1.15

# Cosines between the outward directions of two ends: -1 is straight on.
_SMOOTH_COSINE = -0.25
_CROSSING_COSINE = -0.6
_HAIRPIN_COSINE = 0.2

BranchEnd = tuple[int, int]  # a branch and which of its ends: 0 is where it starts, 1 where it stops


@dataclass(frozen=True, slots=True)
class Branch:
    """A stretch of skeleton from node to node; a closed one has no nodes."""

    path: Floats
    start: int
    stop: int
    is_closed: bool = False

    @property
    def length(self) -> float:
        return float(np.hypot(*np.diff(self.path, axis=0).T).sum())

    def node(self, side: int) -> int:
        return self.stop if side else self.start

    def path_from_end(self, side: int) -> Floats:
        return self.path[::-1] if side else self.path


@dataclass(frozen=True, slots=True)
class PenPath:
    """A path that one movement of the pen could have drawn. `touches_others` says which of its ends touch others."""

    path: Floats
    is_closed: bool
    touches_others: tuple[bool, bool]


def trace_pen_paths(branches: list[Branch], outline_points: Floats, pen_radius: float) -> list[PenPath]:
    """The cleaned and joined branches of one letter; `outline_points` are close together along its outline."""
    branches, tips = _remove_spurs(branches, pen_radius)
    return _Junctions(branches, tips, outline_points, pen_radius).trace_pen_paths()


def _remove_spurs(branches: list[Branch], pen_radius: float) -> tuple[list[Branch], dict[int, Floats]]:
    """Drop the short stubs at nodes; their tips are returned, for a corner reaches that far."""
    ends_by_node: dict[int, list[BranchEnd]] = defaultdict(list)
    for index, branch in enumerate(branches):
        if not branch.is_closed:
            ends_by_node[branch.start].append((index, 0))
            ends_by_node[branch.stop].append((index, 1))
    dropped: set[int] = set()
    tips: dict[int, Floats] = {}
    for node, ends in sorted(ends_by_node.items()):
        if len(ends) < 3:
            continue
        stubs = {end: branches[end[0]].length for end in ends if len(ends_by_node[_far_node(branches, end)]) == 1}
        spurs = [end for end, length in stubs.items() if length < _MAX_SPUR * pen_radius]
        if len(ends) == 3 and len(stubs) == 1 and min(stubs.values()) < _MAX_TIP * pen_radius:
            [(index, side)] = stubs
            other_ends = [end for end in ends if end[0] != index]
            is_loop = len({_far_node(branches, end) for end in other_ends}) == 1
            if is_loop or _is_hairpin(branches, other_ends, pen_radius):
                spurs = [(index, side)]
                tips[node] = branches[index].path_from_end(1 - side)[0]
        if len(spurs) == len(ends):
            spurs = sorted(spurs, key=lambda end: (stubs[end], end))[:-2]
        dropped.update(index for index, _ in spurs)
    return [branch for index, branch in enumerate(branches) if index not in dropped], tips


def _far_node(branches: list[Branch], end: BranchEnd) -> int:
    return branches[end[0]].node(1 - end[1])


def _is_hairpin(branches: list[Branch], ends: list[BranchEnd], pen_radius: float) -> bool:
    """Do two branches leave their common node in much the same direction?"""
    first, second = (
        path[min(int(np.searchsorted(_path_distances(path), _DIRECTION_LENGTH * pen_radius)), len(path) - 1)] - path[0]
        for path in (branches[index].path_from_end(side) for index, side in ends)
    )
    size = float(np.hypot(*first) * np.hypot(*second))
    return float(first[0] * second[0] + first[1] * second[1]) > _HAIRPIN_COSINE * size


class _Junctions:
    """Where branches of one letter meet; `bent_counts` are unreliable points at the start and stop of each."""

    def __init__(
        self, branches: list[Branch], tips: dict[int, Floats], outline_points: Floats, pen_radius: float
    ) -> None:
        self.branches = branches
        self.outline_points = outline_points
        self.tips = tips
        self.pen_radius = pen_radius
        self.directions = {
            (index, side): self._end_direction(branch.path_from_end(side))
            for index, branch in enumerate(branches)
            for side in (0, 1)
            if not branch.is_closed
        }
        self.clusters: dict[int, int] = {}
        self.bridges: set[int] = set()
        self._contract_bridges()
        self.ends_at: dict[int, list[BranchEnd]] = defaultdict(list)
        for end in self.directions:
            if end[0] not in self.bridges:
                self.ends_at[self._cluster_of(end)].append(end)
        self.bent_counts = [
            tuple(self._count_bent_points((index, side)) for side in (0, 1)) if not branch.is_closed else (0, 0)
            for index, branch in enumerate(branches)
        ]
        self.directions |= {
            (index, side): self._end_direction(branches[index].path_from_end(side), self.bent_counts[index][side])
            for index, side in self.directions
            if index not in self.bridges
        }
        self.continuations = self._pair_ends()

    def trace_pen_paths(self) -> list[PenPath]:
        """Open lines first from their loose ends, then what only goes round."""
        pen_paths = [
            PenPath(branch.path, branch.is_closed, (False, False)) for branch in self.branches if branch.is_closed
        ]
        unvisited = dict.fromkeys(index for index, _ in self.directions if index not in self.bridges)
        loose_ends = [end for end in self.directions if end[0] in unvisited and end not in self.continuations]
        for start in [*loose_ends, *((index, 0) for index in list(unvisited))]:
            if start[0] in unvisited:
                pen_paths.append(self._trace_from(start, unvisited))
        return pen_paths

    def _trace_from(self, start: BranchEnd, unvisited: dict[int, None]) -> PenPath:
        segments: list[Floats] = []
        end: BranchEnd | None = start
        last = start
        while end is not None and end[0] in unvisited:
            del unvisited[end[0]]
            segments.append(self._trimmed_path(end))
            last = (end[0], 1 - end[1])
            end = self.continuations.get(last)
            if end is not None and end[0] in unvisited:
                segments.append(self._connect(last, end))
        is_closed = end is not None and end == start
        if is_closed:
            segments += [self._connect(last, start), segments[0][:1]]
            return PenPath(np.concatenate(segments), True, (False, False))
        return PenPath(np.concatenate(segments), False, (self._touches_others(start), self._touches_others(last)))

    def _trimmed_path(self, end: BranchEnd) -> Floats:
        """The branch from this end on without bent stretches; a loose end stays, as it marks a touch."""
        number, side = end
        path = self.branches[number].path_from_end(side)
        first, last = self.bent_counts[number][:: -1 if side else 1]
        trimmed: Floats = path[first : len(path) - last]
        if end not in self.continuations and first:
            trimmed = np.concatenate([path[:1], trimmed])
        if (number, 1 - side) not in self.continuations and last:
            trimmed = np.concatenate([trimmed, path[-1:]])
        return trimmed

    def _connect(self, first: BranchEnd, second: BranchEnd) -> Floats:
        """The way from one branch into the next: round the corner, or in a smooth curve."""
        corner = self.tips.get(self._node_of(first))
        if corner is not None:
            return corner[None]
        start, stop = (
            self.branches[number].path_from_end(side)[self.bent_counts[number][side]]
            for number, side in (first, second)
        )
        gap = float(np.hypot(*(stop - start)))
        start_tangent, end_tangent = gap * self.directions[first], -gap * self.directions[second]
        t = np.linspace(0, 1, max(2, int(gap / 4)))[1:-1, None]
        inverse_t = 1 - t
        curve: Floats = (
            inverse_t * inverse_t * (1 + 2 * t) * start
            + t * t * (3 - 2 * t) * stop
            + t * inverse_t * (inverse_t * start_tangent - t * end_tangent)
        )
        return curve

    def _count_bent_points(self, end: BranchEnd) -> int:
        """How many points at this end run where the ink of several strokes lies together."""
        if len(self.ends_at[self._cluster_of(end)]) <= 2 and self._node_of(end) not in self.tips:
            return 0
        path = self.branches[end[0]].path_from_end(end[1])
        distances = _path_distances(path)
        near_count = int(np.searchsorted(distances, min(_MAX_BENT_LENGTH * self.pen_radius, 0.3 * distances[-1])))
        ink_radii = distances_to_outline(self.outline_points, path[:near_count])
        wide_points = np.flatnonzero(ink_radii > _WIDE_INK_RATIO * self.pen_radius)
        min_count = int(np.searchsorted(distances, min(_TRIM_LENGTH * self.pen_radius, 0.25 * distances[-1])))
        return max(min_count, int(wide_points[-1]) + 1 if len(wide_points) else 0)

    def _contract_bridges(self) -> None:
        """Nodes with only a short bridge between them are one crossing, which thinning has torn in two."""
        parents: dict[int, int] = {}

        def find_root(node: int) -> int:
            while parents.get(node, node) != node:
                node = parents[node]
            return node

        ends_by_node: dict[int, list[BranchEnd]] = defaultdict(list)
        for index, side in self.directions:
            ends_by_node[self._node_of((index, side))].append((index, side))
        for index, branch in enumerate(self.branches):
            if branch.is_closed or branch.start == branch.stop:
                continue
            if min(len(ends_by_node[branch.start]), len(ends_by_node[branch.stop])) < 3:
                continue
            if branch.length < _MAX_BRIDGE * self.pen_radius or (
                branch.length < _MAX_CROSSING_BRIDGE * self.pen_radius
                and self._is_shallow_crossing(index, ends_by_node)
            ):
                self.bridges.add(index)
                parents[find_root(branch.start)] = find_root(branch.stop)
        for node in ends_by_node:
            self.clusters[node] = find_root(node)

    def _is_shallow_crossing(self, bridge: int, ends_by_node: dict[int, list[BranchEnd]]) -> bool:
        """Do two strokes cross at a shallow angle here, and share the bridge?"""
        start_ends, stop_ends = (
            [end for end in ends_by_node[self.branches[bridge].node(side)] if end[0] != bridge] for side in (0, 1)
        )
        if len(start_ends) != 2 or len(stop_ends) != 2:
            return False
        pairings = (zip(start_ends, stop_ends, strict=True), zip(start_ends, reversed(stop_ends), strict=True))
        return any(
            max(self._direction_cosine(one, other) for one, other in pairing) < _CROSSING_COSINE for pairing in pairings
        )

    def _pair_ends(self) -> dict[BranchEnd, BranchEnd]:
        """Which end each end goes on into; the straightest continuations choose first."""
        continuations: dict[BranchEnd, BranchEnd] = {}
        for ends in self.ends_at.values():
            pairs = sorted((self._direction_cosine(one, other), one, other) for one, other in combinations(ends, 2))
            for cosine, one, other in pairs:
                if one in continuations or other in continuations:
                    continue
                if cosine < _SMOOTH_COSINE or len(ends) == 2:
                    continuations[one], continuations[other] = other, one
        return continuations

    def _end_direction(self, path: Floats, bent_count: int | None = None) -> Floats:
        """Out of the end of a branch, judged from where the meeting of strokes no longer bends it."""
        distances = _path_distances(path)
        near = bent_count
        if near is None:
            near = int(np.searchsorted(distances, min(_TRIM_LENGTH * self.pen_radius, 0.25 * distances[-1])))
        far = min(int(np.searchsorted(distances, distances[near] + _DIRECTION_LENGTH * self.pen_radius)), len(path) - 1)
        outward = path[near] - path[far]
        size = float(np.hypot(*outward))
        return outward / size if size else np.zeros(2)

    def _direction_cosine(self, first_end: BranchEnd, second_end: BranchEnd) -> float:
        first, second = self.directions[first_end], self.directions[second_end]
        return float(first[0] * second[0] + first[1] * second[1])

    def _touches_others(self, end: BranchEnd) -> bool:
        return len(self.ends_at[self._cluster_of(end)]) > 1

    def _node_of(self, end: BranchEnd) -> int:
        return self.branches[end[0]].node(end[1])

    def _cluster_of(self, end: BranchEnd) -> int:
        return self.clusters[self._node_of(end)]


def _path_distances(path: Floats) -> Floats:
    return np.concatenate([[0.0], np.cumsum(np.hypot(*np.diff(path, axis=0).T))])
