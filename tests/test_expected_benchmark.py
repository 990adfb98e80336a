"""`benchmark expected`: counts of what a program does, and the estimates from them."""

import jax
import jax.numpy as jnp
import pytest

from experiments import benchmarks
from experiments.benchmarks import expected
from experiments.benchmarks.program_costs import compile_to_count, costs_of_a_run, steps_of_a_run
from experiments.harness import results


def costs_of_turns(turn, array):
    """The costs of ten turns of a loop."""
    compiled = compile_to_count(
        lambda x, count: jax.lax.fori_loop(0, count, turn, x), array, jnp.int32(0)
    )
    more, less = (costs_of_a_run(compiled, array, jnp.int32(count)) for count in (13, 3))
    return more - less


def test_operations_of_a_product():
    costs = costs_of_turns(lambda _, x: x @ x, jnp.ones((64, 64)))
    assert costs.operations == 10 * 2 * 64**3
    assert costs.bytes >= 10 * 2 * 4 * 64**2
    assert 10 <= costs.kernels <= 10 * 5  # and the loop's own


def test_a_row_that_is_changed_is_not_the_whole_table():
    table = jnp.ones((1000, 64))
    costs = costs_of_turns(lambda i, x: x.at[i].multiply(2.0), table)
    assert 10 * 2 * 4 * 64 <= costs.bytes < table.nbytes
    assert costs.operations == 10 * 64


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


def test_kernels_do_not_depend_on_the_batch_and_bytes_grow_with_it():
    costs = expected.PROGRAMS["Kuhn, CFR+"].costs
    few, many = costs(16), costs(64)
    assert few.kernels == many.kernels
    assert many.operations == pytest.approx(4 * few.operations, rel=0.05)
    assert few.bytes < many.bytes < 4 * few.bytes  # the game is shared


def test_estimates_are_those_of_the_formula(tmp_path):
    benchmarks.run("expected", tmp_path, preset="smoke")
    result = results.read_result(tmp_path / "result.json")
    assert result.experiment == "benchmark_expected"
    found = {key: result.number(f"{key}:Kuhn, CFR+").value for key in ("kernels", "megabytes")}
    assert result.number("launches:Kuhn, CFR+").value == pytest.approx(found["kernels"] * 5e-3)
    memory = found["megabytes"] / 3.35e3
    assert result.number("memory:Kuhn, CFR+").value == pytest.approx(memory)
    least = max(memory, found["kernels"] * 2.5e-3)
    assert result.number("most_per_second:Kuhn, CFR+").value == pytest.approx(64e3 / least)
    assert "Kuhn, CFR+" in (tmp_path / "table.md").read_text()


def test_counts_of_longer_searches():
    """3 x + 5 x^2 goes on as it began."""
    assert expected._continued(3 * 10 + 5 * 100, 3 * 20 + 5 * 400, 4.0) == 3 * 80 + 5 * 6400


def test_an_unknown_program_is_refused(tmp_path):
    with pytest.raises(ValueError, match="unknown program 'Leduc, CFR'; did you mean 'Leduc, CFR"):
        benchmarks.run("expected", tmp_path, programs=("Leduc, CFR",))
