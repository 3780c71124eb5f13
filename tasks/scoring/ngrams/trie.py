"""A vocabulary of n-grams as a trie in one hash table, for all positions of a text at once.

An n-gram is a sequence of symbols: characters, or tokens. Each node of the trie is a slot of the
table, found by its parent's slot and a symbol. Looking up all n-grams of a text takes one step for
each length, and each step is a few operations of numpy on whole arrays.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

_FREE = -1
# 2 ** 64 divided by the golden ratio: products with it spread neighbouring numbers evenly.
_SPREAD = np.uint64(0x9E3779B97F4A7C15)
_SLOTS_A_NODE = 4


class Trie:
    """The n-grams of a vocabulary.

    Parameters
    ----------
    symbols : numpy.ndarray
        The symbols of all n-grams, one after the other, from 0 to `n_symbols` - 2, shape (m,).
    lengths : numpy.ndarray
        How many of them belong to each n-gram, shape (n,).
    features : numpy.ndarray
        The number of each n-gram, at least 0, shape (n,).
    n_symbols : int
        How many symbols there are, with the last one, which is in no n-gram of the vocabulary.
    """

    def __init__(
        self, symbols: np.ndarray, lengths: np.ndarray, features: np.ndarray, n_symbols: int
    ) -> None:
        self.n_symbols = n_symbols
        levels = _levels(symbols, lengths)
        n_nodes = sum(level.n_nodes for level in levels)
        bits = max(3, (_SLOTS_A_NODE * n_nodes).bit_length())
        self._root = 1 << bits
        self._last = self._root - 1
        self._shift = np.uint64(64 - bits)
        self._keys = np.full(self._root, _FREE, np.int64)
        self._features = np.full(self._root + 1, _FREE, np.int32)
        slots = np.array([self._root])
        for level in levels:
            slots = self._inserted(slots[level.parents] * n_symbols + level.symbols)
            self._features[slots[level.ends_at]] = features[level.ending]

    def find(
        self, symbols: np.ndarray, left: np.ndarray, shortest: int, longest: int
    ) -> tuple[np.ndarray, np.ndarray]:
        """Look up all n-grams of some texts.

        Parameters
        ----------
        symbols : numpy.ndarray
            The symbols of the texts, one after the other, shape (m,).
        left : numpy.ndarray
            How many symbols of its text are left at each one, itself included, shape (m,).
        shortest, longest : int
            Lengths of the n-grams.

        Returns
        -------
        positions, features : numpy.ndarray
            Where each known n-gram begins, and its number: the short ones first, those of one
            length in the order of the texts.
        """
        at, nodes = np.arange(len(symbols)), np.full(len(symbols), self._root)
        positions, features = [np.empty(0, np.int64)], [np.empty(0, np.int32)]
        for length in range(1, longest + 1):
            if length > 1:
                goes_on = np.flatnonzero(left[at] >= length)
                at, nodes = at[goes_on], nodes[goes_on]
            at, nodes = self._children(at, nodes, symbols[at + (length - 1)])
            if length >= shortest:
                feature = self._features[nodes]
                known = np.flatnonzero(feature != _FREE)
                positions.append(at[known])
                features.append(feature[known])
        return np.concatenate(positions), np.concatenate(features)

    def whole(self, symbols: np.ndarray, starts: np.ndarray, lengths: np.ndarray) -> np.ndarray:
        """Look up whole sequences; return their numbers, -1 where there is none, shape (n,)."""
        numbers = np.full(len(starts), _FREE, np.int32)
        at, nodes = np.arange(len(starts)), np.full(len(starts), self._root)
        for length in range(int(lengths.max(initial=0)) + 1):
            ended = lengths[at] == length
            numbers[at[ended]] = self._features[nodes[ended]]
            at, nodes = at[~ended], nodes[~ended]
            at, nodes = self._children(at, nodes, symbols[starts[at] + length])
        return numbers

    def _children(
        self, at: np.ndarray, nodes: np.ndarray, symbols: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Go one symbol further; drop the positions where no n-gram goes on."""
        keys = nodes * self.n_symbols + symbols
        slots = self._slots(keys)
        found = self._keys[slots]
        is_there = found == keys
        moved = np.flatnonzero(~is_there & (found != _FREE))
        while moved.size:  # another node has the slot: look into the next one
            slots[moved] = (slots[moved] + 1) & self._last
            found = self._keys[slots[moved]]
            hit = found == keys[moved]
            is_there[moved[hit]] = True
            moved = moved[~hit & (found != _FREE)]
        kept = np.flatnonzero(is_there)
        return at[kept], slots[kept]

    def _slots(self, keys: np.ndarray) -> np.ndarray:
        return ((keys.view(np.uint64) * _SPREAD) >> self._shift).view(np.int64)

    def _inserted(self, keys: np.ndarray) -> np.ndarray:
        """Give each of some different keys a slot."""
        slots = self._slots(keys)
        todo = np.arange(len(keys))
        while todo.size:
            free = todo[self._keys[slots[todo]] == _FREE]
            self._keys[slots[free]] = keys[free]  # of two keys for one slot the last one gets it
            todo = todo[self._keys[slots[todo]] != keys[todo]]
            slots[todo] = (slots[todo] + 1) & self._last
        return slots


@dataclass(frozen=True)
class _Level:
    """The nodes of one depth.

    `parents` and `symbols` have one element for each node, `parents` being places in the level
    above. The n-grams `ending` end at the nodes `ends_at`.
    """

    parents: np.ndarray
    symbols: np.ndarray
    ending: np.ndarray
    ends_at: np.ndarray

    @property
    def n_nodes(self) -> int:
        return len(self.parents)


def _levels(symbols: np.ndarray, lengths: np.ndarray) -> list[_Level]:
    """Return the nodes of the trie, depth by depth."""
    levels: list[_Level] = []
    starts = np.cumsum(lengths) - lengths
    n_symbols = int(symbols.max(initial=0)) + 1
    grams, above = np.flatnonzero(lengths > 0), np.zeros(int((lengths > 0).sum()), np.int64)
    depth = 0
    while grams.size:
        nodes, place = np.unique(
            above * n_symbols + symbols[starts[grams] + depth], return_inverse=True
        )
        depth += 1
        ends = lengths[grams] == depth
        levels.append(_Level(nodes // n_symbols, nodes % n_symbols, grams[ends], place[ends]))
        grams, above = grams[~ends], place[~ends]
    return levels
