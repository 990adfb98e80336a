"""Sequential steps of compiled programs, as the benchmark of searches counts them."""

import jax
import jax.numpy as jnp

from experiments.benchmarks.program_steps import compile_to_count, steps_of_a_run


def test_steps_are_turns_of_innermost_loops():
    """Three turns of a loop with a scatter, in which a loop of n turns and one of two are made,
    the latter in every second turn; and then five turns of another loop."""

    def inner(count, x):
        scattered = lambda i, x: x.at[i * jnp.arange(5)].add(jnp.sin(x[:5]))  # noqa: E731
        return jax.lax.fori_loop(0, count, scattered, x)

    def turn(i, carry):
        x, count = carry
        x = inner(count, x)
        return jax.lax.cond(i % 2 == 0, lambda: inner(count * 0 + 2, x), lambda: x), count

    def run(x, count):
        x, _ = jax.lax.fori_loop(0, 3, turn, (x, count))
        return jax.lax.fori_loop(0, count * 0 + 5, lambda _, x: jnp.cos(x), x)

    arguments = jnp.ones(100), jnp.int32(4)
    assert steps_of_a_run(compile_to_count(run, *arguments), *arguments) == 3 * 4 + 2 * 2 + 5
