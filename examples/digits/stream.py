"""The order in which the device of this example sees the digits.

The 1,797 handwritten digits that scikit-learn ships are dealt out once, by a seed: some are held out (never fed,
equally many of each digit), the first 60 make the initial model, the rest is the stream. The stream has the shape
that incremental learning is for: the device begins with the digits 0 to 3, and each stretch of 200 samples brings
one digit that it has never seen (a third of the stretch), from 4 up to 9; what remains then comes in any order.

Invariant: the same seed gives the same three lists, disjoint, with every sample of the set in exactly one of them.
"""

import numpy as np
from sklearn.datasets import load_digits

SEED = 20
HELD_OUT_PER_DIGIT = 15
INITIAL = 60
KNOWN_AT_FIRST = 4
STRETCH = 200
NEW_SHARE = 3


class Stream:
    """held_out, initial and rest: sample numbers of the set, in order."""

    def __init__(self, seed=SEED):
        digits = load_digits()
        self.labels = digits.target
        self.pixels = digits.data.astype(int)
        self.random = np.random.RandomState(seed)
        order = self.random.permutation(len(self.labels))
        self.pools = [list(order[self.labels[order] == digit]) for digit in range(10)]
        self.held_out = self.shuffled(self.take([HELD_OUT_PER_DIGIT] * 10))
        self.initial = self.shuffled(self.take([INITIAL // KNOWN_AT_FIRST] * KNOWN_AT_FIRST))
        self.rest = []
        for known in range(KNOWN_AT_FIRST + 1, 11):
            self.rest += self.shuffled(self.stretch(known))
        self.rest += self.shuffled(self.take([len(pool) for pool in self.pools]))

    def take(self, counts):
        taken = []
        for pool, count in zip(self.pools, counts):
            taken += pool[:count]
            del pool[:count]
        return taken

    def stretch(self, known):
        """STRETCH samples of the digits below `known`, a third of them the newest one."""
        new = STRETCH // NEW_SHARE
        each, over = divmod(STRETCH - new, known - 1)
        taken = self.take([each + (digit < over) for digit in range(known - 1)] + [new])
        while len(taken) < STRETCH:
            # A digit that has run out is made up for by the one of which most are left.
            fullest = max(range(known), key=lambda digit: len(self.pools[digit]))
            taken.append(self.pools[fullest].pop(0))
        return taken

    def shuffled(self, numbers):
        return [int(numbers[i]) for i in self.random.permutation(len(numbers))]

    def line(self, number, label=None):
        """Sample `number` as a line of the dataset, with its own label or another."""
        label = self.labels[number] if label is None else label
        return f"{label} {' '.join(map(str, self.pixels[number]))}\n"
