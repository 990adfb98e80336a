"""One batch from a replay buffer."""

from train import replay as buffers


def sample(replay, key, batch_size, max_uses):
    """Draws different examples, as `draw` does.

    Returns:
      The buffer with these uses counted, the examples, and weights `[B]`: 1, or 0 where no example
      was left.
    """
    priorities = buffers.random_priorities(replay, key)[None]
    replay, slot, drawn = buffers.draw(replay, priorities, batch_size, max_uses)
    batch = buffers.drawn_examples(replay, slot[0], drawn[0])
    return replay, batch, drawn[0].astype(batch.value_weight.dtype)
