"""A vocabulary of n-grams as a trie in hash tables, searched at all positions of texts at once.

An n-gram is a sequence of symbols: characters, or tokens. Each node of the trie is a slot of the
table of its depth, found by its parent's slot and a symbol. Looking up all n-grams of a text takes
one step for each length, and each step is a few operations of numpy on whole arrays.
"""

from __future__ import annotations

import numpy as np

_FREE = -1
# 2 ** 64 divided by the golden ratio: products with it spread neighbouring numbers evenly.
_SPREAD = np.uint64(0x9E3779B97F4A7C15)
_SLOTS_A_KEY = 4


class Slots:
    """A hash table of whole numbers: each has a slot of its own.

    Parameters
    ----------
    keys : numpy.ndarray
        Different numbers, at least 0, shape (n,).
    """

    def __init__(self, keys: np.ndarray) -> None:
        bits = max(3, (_SLOTS_A_KEY * len(keys)).bit_length())
        self.n_slots = 1 << bits
        self._shift = np.uint64(64 - bits)
        self._keys = np.full(self.n_slots, _FREE, np.int64)
        self.of_keys = self._inserted(keys)

    def find(self, keys: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return where numbers are that have a slot, and their slots."""
        slots = self._first(keys)
        found = self._keys[slots]
        is_there = found == keys
        moved = np.flatnonzero(~is_there & (found != _FREE))
        while moved.size:  # another number has the slot: look into the next one
            slots[moved] = (slots[moved] + 1) % self.n_slots
            found = self._keys[slots[moved]]
            hit = found == keys[moved]
            is_there[moved[hit]] = True
            moved = moved[~hit & (found != _FREE)]
        kept = np.flatnonzero(is_there)
        return kept, slots[kept]

    def _first(self, keys: np.ndarray) -> np.ndarray:
        return ((keys.view(np.uint64) * _SPREAD) >> self._shift).view(np.int64)

    def _inserted(self, keys: np.ndarray) -> np.ndarray:
        slots = self._first(keys)
        todo = np.arange(len(keys))
        while todo.size:
            free = todo[self._keys[slots[todo]] == _FREE]
            self._keys[slots[free]] = keys[free]  # of two numbers, the last one gets the slot
            todo = todo[self._keys[slots[todo]] != keys[todo]]
            slots[todo] = (slots[todo] + 1) % self.n_slots
        return slots


class Nodes:
    """Nodes of one depth at which prefixes end that begin at some positions of texts.

    Attributes
    ----------
    at : numpy.ndarray
        The positions, ascending, shape (k,).
    slots : numpy.ndarray
        The node of each, shape (k,).
    """

    def __init__(self, symbols: np.ndarray, left: np.ndarray, n_symbols: int) -> None:
        self._symbols, self._left, self._n_symbols = symbols, left, n_symbols
        self.at = np.arange(len(symbols))
        self.slots = np.zeros(len(symbols), np.int64)
        self.depth = 0

    def keys(self) -> np.ndarray:
        """Drop the positions where a text ends; return the keys of the nodes one symbol further."""
        if self.depth:
            goes_on = np.flatnonzero(self._left[self.at] > self.depth)
            self.at, self.slots = self.at[goes_on], self.slots[goes_on]
        keys: np.ndarray = self.slots * self._n_symbols + self._symbols[self.at + self.depth]
        return keys

    def descend(self, table: Slots) -> None:
        """Go one symbol further; drop the positions where no n-gram of the table goes on."""
        kept, self.slots = table.find(self.keys())
        self.at = self.at[kept]
        self.depth += 1


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
        self._n_symbols = n_symbols
        self._tables: list[Slots] = []
        self._features: list[np.ndarray] = []
        starts = np.cumsum(lengths) - lengths
        grams = np.flatnonzero(lengths > 0)
        slots = np.zeros(len(grams), np.int64)
        while grams.size:
            depth = len(self._tables)
            keys, places = np.unique(
                slots * n_symbols + symbols[starts[grams] + depth], return_inverse=True
            )
            table = Slots(keys)
            slots = table.of_keys[places]
            ends = lengths[grams] == depth + 1
            of_slots = np.full(table.n_slots, _FREE, np.int32)
            of_slots[slots[ends]] = features[grams[ends]]
            self._tables.append(table)
            self._features.append(of_slots)
            grams, slots = grams[~ends], slots[~ends]

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
        nodes = Nodes(symbols, left, self._n_symbols)
        positions, features = [np.empty(0, np.int64)], [np.empty(0, np.int32)]
        for table, of_slots in zip(self._tables[:longest], self._features, strict=False):
            nodes.descend(table)
            if nodes.depth >= shortest:
                found = of_slots[nodes.slots]
                known = np.flatnonzero(found != _FREE)
                positions.append(nodes.at[known])
                features.append(found[known])
        return np.concatenate(positions), np.concatenate(features)

    def whole(self, symbols: np.ndarray, lengths: np.ndarray) -> np.ndarray:
        """Look up whole texts; return their numbers, -1 where there is none, shape (n,).

        Parameters
        ----------
        symbols : numpy.ndarray
            The symbols of the texts, one after the other, shape (m,).
        lengths : numpy.ndarray
            How many of them belong to each text, at least 1, shape (n,).
        """
        left = np.repeat(np.cumsum(lengths), lengths) - np.arange(len(symbols))
        starts = np.cumsum(lengths) - lengths
        numbers = np.full(len(lengths), _FREE, np.int32)
        for length in np.unique(lengths):
            at, features = self.find(symbols, left, length, length)
            text = np.searchsorted(starts, at, side="right") - 1
            is_whole = (starts[text] == at) & (lengths[text] == length)
            numbers[text[is_whole]] = features[is_whole]
        return numbers
