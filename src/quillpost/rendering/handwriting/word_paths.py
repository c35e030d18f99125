"""Words as movements of the pen: letters are joined into paths, and corners are cut."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from quillpost.rendering.handwriting.bent_letters import BentLetters, Manner
from quillpost.rendering.handwriting.letter_pairs import find_high_pairs, joining_shares, share_bars, vary_second_l
from quillpost.rendering.handwriting.letter_tables import MAX_TRIMMED_KNOTS, LetterTables
from quillpost.rendering.handwriting.letterforms import LineKind
from quillpost.rendering.handwriting.noise import Integers, Seeds, mix, normals, random_bytes
from quillpost.rendering.handwriting.outlines import Floats

Flags = npt.NDArray[np.bool_]

_LINK_KNOTS = 2
_HANDLE = 0.38
_RING_HANDLE = 0.15
_TREMOR = 0.03  # x-heights
_HIDDEN_SHARE = 0.35  # of the way between two knots that a join goes on along a letter's side
_GONE_OVER = 0.012  # share of paths of which a part is written once more, at a usual pace
_GONE_OVER_KNOTS = (5, 9)
_GONE_OVER_OFF = 0.035  # x-heights
_TINY = 1e-9


@dataclass(frozen=True, slots=True)
class PenPaths:
    """What the pen does, path after path: `starts` index the knots, and have one more, the end.

    A path begins and ends in a stop, in a flight over the paper, or hidden in ink.
    """

    knots: Floats
    starts: Integers
    word: Integers
    stops_at: Flags  # at its start and at its end: loose
    is_dot: Flags


@dataclass(frozen=True, slots=True)
class _Joins:
    """Letters that are led into the next, each with the knots between, and what is cut from either."""

    letter: Integers
    exit_line: Integers
    meeting: Integers  # as usual, or high
    dropped: Integers  # knots at the end of the exit
    skipped: Integers  # knots at the start of the entry
    runs_on: Flags  # into an entry; else it ends on the letter's left side
    link: Floats  # (joins, knots, 2)


def shape_words(
    tables: LetterTables,
    forms: Integers,
    words: Integers,
    seeds: Seeds,
    manner: Manner,
    *,
    joining: float,
    spacing: float = 0.0,
) -> PenPaths:
    """`forms` of all letters, word after word; `words` is rising, and `seeds` has one for each word."""
    letters = BentLetters(tables, forms, words, seeds, manner)
    vary_second_l(letters)
    letters.set_side_by_side(spacing)
    share_bars(letters)
    joins = _find_joins(letters, joining)
    paths = _assemble(letters, joins)
    _bend_words(paths, seeds, manner)
    return paths


def _find_joins(letters: BentLetters, joining: float) -> _Joins:
    tables, forms = letters.tables, letters.forms
    pair = np.flatnonzero(letters.words[1:] == letters.words[:-1])
    here, there = forms[pair], forms[pair + 1]
    is_high = np.isin(pair, find_high_pairs(tables, forms, letters.words))
    has_ring = is_high & (tables.ring[here] >= 0)
    chance = letters.noise[pair, 60] / 256
    chosen = chance < joining_shares(tables, forms, letters.words, joining)[pair] * (1 - letters.manner.lifts)
    chosen &= ((tables.exits[here] >= 0) | has_ring) & tables.can_be_met[there]
    has_entry = (tables.entries[there] >= 0) & ~is_high
    meeting = is_high.astype(np.int64)
    chosen &= has_entry | (tables.meeting_low[there, meeting] >= 0)
    if joining < 0.9:
        chosen &= ~tables.is_stem[there]
    chosen &= has_entry | ~tables.is_s[there]
    pair, there, has_entry, meeting = pair[chosen], there[chosen], has_entry[chosen], meeting[chosen]
    has_ring = has_ring[chosen]
    if not len(pair):
        none = np.zeros(0, np.int64)
        return _Joins(none, none, none, none, none, none.astype(bool), np.zeros((0, _LINK_KNOTS, 2)))
    points = np.stack([letters.x, letters.y], axis=1)
    goal, way_in, skipped = _goals(letters, points, pair, there, has_entry, meeting)

    exit_line = np.searchsorted(letters.line_letter, pair) + np.where(
        has_ring, tables.ring[forms[pair]], tables.exits[forms[pair]]
    )
    stop, length = letters.line_starts[exit_line + 1], np.diff(letters.line_starts)[exit_line]
    # The tail is cut where it would pass the goal.
    clear = np.where(points[stop - 1, 1] < goal[:, 1], 0.10, 0.16)
    dropped = np.zeros(len(pair), np.int64)
    for cut in range(MAX_TRIMMED_KNOTS):
        index = np.maximum(stop - 1 - cut, 0)
        passes = (dropped == cut) & (points[index, 0] > goal[:, 0] - clear) & (length - cut > 3)
        dropped += passes
    # What goes round is left where it closes, and not after it has gone on.
    dropped = np.where(has_ring, tables.ring_lap[forms[pair]], dropped)
    last = stop - 1 - dropped
    start = points[last]
    way_out = _direction(start - points[last - 1])
    gap = goal - start
    size = np.hypot(gap[:, 0], gap[:, 1])
    fits = (gap[:, 0] > 0.02) & (gap[:, 0] < 1.1) & (np.abs(gap[:, 1]) < 1.1) & (length > 3)
    handle = np.where(has_ring, _RING_HANDLE, _HANDLE) * size
    leave, arrive = start + way_out * handle[:, None], goal - way_in * _HANDLE * size[:, None]
    link = np.stack([
        (1 - t) ** 3 * start + 3 * (1 - t) ** 2 * t * leave + 3 * (1 - t) * t * t * arrive + t**3 * goal
        for t in (1 / 3, 2 / 3)
    ], axis=1)  # fmt: skip
    return _Joins(pair[fits], exit_line[fits], meeting[fits], dropped[fits], skipped[fits], has_entry[fits], link[fits])


def _goals(
    letters: BentLetters, points: Floats, pair: Integers, there: Integers, has_entry: Flags, meeting: Integers
) -> tuple[Floats, Floats, Integers]:
    """Where each join leads, the way in which it arrives, and how many knots of the entry it skips."""
    tables = letters.tables
    line_of_entry = np.full(len(letters.forms), 0)
    line_of_entry[letters.line_letter[letters.is_entry]] = np.flatnonzero(letters.is_entry)
    entry_line = line_of_entry[pair + 1]
    entry_start, entry_length = letters.line_starts[entry_line], np.diff(letters.line_starts)[entry_line]
    skipped = np.where(has_entry & (entry_length > 4) & ~tables.hides_at_entry[there], 1, 0)
    entry = np.where(has_entry, entry_start + skipped, 0)
    base = letters.first_knot[pair + 1]
    low = np.where(has_entry, 0, base + tables.meeting_low[there, meeting])
    high = np.where(has_entry, 0, base + tables.meeting_high[there, meeting])
    share = tables.meeting_share[there, meeting][:, None]
    met = points[low] + share * (points[high] - points[low])
    goal = np.where(has_entry[:, None], points[entry], met)
    after = np.minimum(entry + 1, len(points) - 1)
    way = np.where(has_entry[:, None], points[after] - points[entry], points[high] - points[low])
    return goal, _direction(way), skipped


def _direction(steps: Floats) -> Floats:
    return steps / np.maximum(np.hypot(steps[:, 0], steps[:, 1]), _TINY)[:, None]


def _assemble(letters: BentLetters, joins: _Joins) -> PenPaths:
    """Lines and links in the order in which they are written: what is joined is one path."""
    lines = np.flatnonzero(letters.kind >= 0)
    letter = letters.line_letter[lines]
    joins_in, joins_out = np.full(len(letters.forms), -1), np.full(len(letters.forms), -1)
    joins_out[joins.letter] = np.arange(len(joins.letter))
    running = joins.runs_on
    joins_in[joins.letter[running] + 1] = np.flatnonzero(running)
    is_exit = letters.is_exit.copy()
    is_exit[joins.exit_line] = True

    is_chain = (letters.is_entry | is_exit)[lines] & (letters.kind[lines] == LineKind.BODY)
    rank = np.where(is_chain, 0, np.where(letters.kind[lines] == LineKind.BODY, 1, 2))
    place = 2 * letter + (is_exit & ~letters.is_entry)[lines]
    order = np.lexsort((place, rank, letters.words[letter]))
    lines, letter = lines[order], letter[order]
    join_in = np.where(letters.is_entry[lines], joins_in[letter], -1)
    join_out = np.where(is_exit[lines], joins_out[letter], -1)

    skipped = np.where(join_in >= 0, joins.skipped[join_in] if len(joins.letter) else 0, 0)
    dropped = np.where(join_out >= 0, joins.dropped[join_out] if len(joins.letter) else 0, 0)
    starts = letters.line_starts[lines] + skipped
    lengths = np.maximum(letters.line_starts[lines + 1] - dropped - starts, 1)
    # A join that ends on the letter's side goes on a little along it, so that its end is hidden.
    links = np.where(join_out >= 0, _LINK_KNOTS, 0)
    runs_on = joins.runs_on[join_out] if len(joins.letter) else np.zeros(len(lines), np.bool_)
    ends_there = (join_out >= 0) & ~runs_on
    tails = np.where(ends_there, 1, 0)
    totals = lengths + links + tails
    offsets = np.concatenate([[0], np.cumsum(totals)])
    knots = np.empty((offsets[-1], 2))
    owner = np.repeat(np.arange(len(lines)), lengths)
    within = np.arange(len(owner)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    source = starts[owner] + within
    knots[offsets[owner] + within] = np.stack([letters.x[source], letters.y[source]], axis=1)
    joined = np.flatnonzero(join_out >= 0)
    for number in range(_LINK_KNOTS):
        knots[offsets[joined] + lengths[joined] + number] = joins.link[join_out[joined], number]
    ending = np.flatnonzero(ends_there)
    if len(ending):
        points = np.stack([letters.x, letters.y], axis=1)
        there = letter[ending] + 1
        base, place = letters.first_knot[there], (letters.forms[there], joins.meeting[join_out[ending]])
        low = points[base + letters.tables.meeting_low[place]]
        high = points[base + letters.tables.meeting_high[place]]
        share = np.minimum(letters.tables.meeting_share[place] + _HIDDEN_SHARE, 1.0)
        knots[offsets[ending + 1] - 1] = low + share[:, None] * (high - low)

    begins = join_in < 0
    path_starts = np.concatenate([offsets[:-1][begins], offsets[-1:]])
    ends = np.concatenate([np.flatnonzero(begins)[1:], [len(lines)]]) - 1
    first = np.flatnonzero(begins)
    loose = letters.tables.loose[letters.line[lines]]
    stops_at = np.stack([loose[first, 0], loose[ends, 1] & ~ends_there[ends]], axis=1)
    is_dot = letters.kind[lines[first]] == LineKind.DOT
    return PenPaths(knots, path_starts, letters.words[letter[first]], stops_at, is_dot)


def _bend_words(paths: PenPaths, seeds: Seeds, manner: Manner) -> None:
    """Each word is a little wider or narrower, and leans its own way; a quick pen cuts corners."""
    noise = random_bytes(mix(seeds), 8)
    n = normals(noise)
    lengths = np.diff(paths.starts)
    path = np.repeat(np.arange(len(lengths)), lengths)
    word = paths.word[path]
    stretch = np.exp(0.065 * manner.pace * n[:, 0])[word]
    lean = (0.028 * manner.drift * n[:, 1])[word]
    knots = paths.knots
    knots[:, 0] = knots[:, 0] * stretch + lean * knots[:, 1]
    if manner.tremor:
        _tremble(paths, path, seeds, manner.tremor)
    _cut_corners(paths, path, (0.10 + 0.10 * manner.pace * np.abs(n[:, 2]))[word], 0.035 + 0.03 * manner.pace)


def _tremble(paths: PenPaths, path: Integers, seeds: Seeds, strength: float) -> None:
    """An unsteady hand: every knot is a little off, but dots and the ends that hide in ink."""
    place = np.arange(len(path)) - paths.starts[:-1][path] + 64 * (path - np.searchsorted(paths.word, paths.word)[path])
    with np.errstate(over="ignore"):
        noise = random_bytes(mix(seeds[paths.word[path]]) + place.astype(np.uint64), 2)[:, :2]
    free = ~paths.is_dot[path]
    free[paths.starts[:-1]] &= paths.stops_at[:, 0]
    free[paths.starts[1:] - 1] &= paths.stops_at[:, 1]
    paths.knots[free] += _TREMOR * strength * normals(noise)[free]


def _cut_corners(paths: PenPaths, path: Integers, strength: Floats, most: float) -> None:
    knots = paths.knots
    inner = np.flatnonzero((path[1:-1] == path[:-2]) & (path[1:-1] == path[2:])) + 1
    inner = inner[~paths.is_dot[path[inner]]]
    move = (knots[inner - 1] + knots[inner + 1]) / 2 - knots[inner]
    move *= strength[inner, None]
    size = np.hypot(move[:, 0], move[:, 1])[:, None]
    knots[inner] += move * np.minimum(1.0, most / np.maximum(size, _TINY))


def go_over_some(paths: PenPaths, seeds: Seeds, pace: float) -> PenPaths:
    """Rarely a pen goes over a part of a stroke again, and does not quite meet it."""
    place = np.arange(len(paths.word)) - np.searchsorted(paths.word, paths.word)
    with np.errstate(over="ignore"):
        noise = random_bytes(mix(mix(seeds[paths.word])) + place.astype(np.uint64), 8)
    lengths = np.diff(paths.starts)
    is_chosen = (noise[:, 0] + noise[:, 1] / 256) / 256 < _GONE_OVER * pace
    chosen = np.flatnonzero(is_chosen & (lengths >= _GONE_OVER_KNOTS[0]) & ~paths.is_dot)
    if not len(chosen):
        return paths
    most = np.minimum(lengths[chosen], _GONE_OVER_KNOTS[1])
    counts = _GONE_OVER_KNOTS[0] + noise[chosen, 2] % (most - _GONE_OVER_KNOTS[0] + 1)
    first = paths.starts[chosen] + noise[chosen, 3] % (lengths[chosen] - counts + 1)
    owner = np.repeat(np.arange(len(chosen)), counts)
    within = np.arange(len(owner)) - np.repeat(np.cumsum(counts) - counts, counts)
    again = paths.knots[first[owner] + within] + _GONE_OVER_OFF * normals(noise[chosen, 4:6])[owner]
    at = chosen + 1
    lengths = np.insert(lengths, at, counts)
    return PenPaths(
        np.insert(paths.knots, paths.starts[at][owner], again, axis=0),
        np.concatenate([[0], np.cumsum(lengths)]),
        np.insert(paths.word, at, paths.word[chosen]),
        np.insert(paths.stops_at, at, True, axis=0),
        np.insert(paths.is_dot, at, False),
    )
