"""How sure the figures of a bench are: intervals of 95 %, by bootstrap. The same figures give the same interval each time."""

import random

DRAWS = 2000
SEED = 1


def bootstrap(pairs: list, statistic) -> tuple:
    """Of a statistic of two sides, if other pairs had been drawn: both sides of a pair are drawn together."""
    rng = random.Random(SEED)
    return within(statistic(*zip(*rng.choices(pairs, k=len(pairs)))) for _ in range(DRAWS))


def within(values) -> tuple:
    """What 95 of 100 of them lie between."""
    values = sorted(values)
    return values[int(0.025 * len(values))], values[int(0.975 * len(values))]


def between(bounds: tuple) -> str:
    return "({:.3f} to {:.3f})".format(*bounds)
