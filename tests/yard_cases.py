"""Games of Scotland Yard that several tests play."""

import functools

import jax
import numpy as np

from jaxgames import make, random_playouts
from jaxgames.scotland_yard import add_map

GLASSES = "scotland_yard(map=glasses)"
LONDON = "scotland_yard(map=london)"
# Every rule at once: chance, buses, ferries, black and double cards, reveals in a double move too.
FULL = (
    "scotland_yard(map=toy,edition=glasses,detectives=2,rounds=3,reveals=2,detective_tickets=1/1/0,"
    "mr_x_tickets=2/1/0,black=1,doubles=1,detective_starts=1/6,mr_x_starts=3/4)"
)
add_map(
    "toy",
    [
        *((1, 2, "taxi"), (2, 3, "taxi"), (3, 4, "taxi"), (4, 5, "taxi"), (5, 6, "taxi")),
        *((1, 3, "bus"), (3, 6, "bus"), (2, 3, "bus"), (2, 5, "ferry")),
    ],
)


@functools.cache
def london_games():
    """64 random games, as NumPy arrays `[64, T, ...]`."""
    playouts = random_playouts(make(LONDON), jax.random.key(1), num_playouts=64)
    return jax.tree.map(np.asarray, playouts)
