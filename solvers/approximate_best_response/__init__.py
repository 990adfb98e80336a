"""Approximate best responses: how much can be won against a fixed agent, by search or by rules.

With the opponent's policy fixed, a game is a game of chance for the player who responds: the
*responder* (Timbers et al. 2020).

- `response_game`: `ResponseGame` puts a game, an `Opponent`, a `Belief` and the responder's seat
  together.
- `opponents`: uniform play, tables over the information states of a compiled game, functions of the
  state of a game that is played by its rules.
- `posterior`: exact beliefs in a compiled game, by Bayes; `build_response_game`.
- `ismcts_br`: search for a best response (ISMCTS-BR), guided by a network or by nothing.
- `response_matches`: what a searching responder wins, by games or as a table that is evaluated
  exactly.
- `local_best_response`: a lower bound on the exploitability of hold'em agents.
- `hand_policies`: policies that are given for every hand; `showdown_chances` of a hand.
- `holdem_opponents`, `exact_chump_responses`: hold'em against policies by hand, and exact
  responses to opponents who do not look at their cards.

`train.best_response_training` trains the network that guides the search.

Example:

    >>> import jax
    >>> import numpy as np
    >>> import jaxgames
    >>> from solvers.approximate_best_response import response_matches
    >>> from solvers.approximate_best_response.ismcts_br import IsmctsBr
    >>> from solvers.approximate_best_response.posterior import build_response_game
    >>> from solvers.sampling.decision_tree import build_decision_tree
    >>> source = jaxgames.enumerate_game(jaxgames.make("kuhn_poker"))
    >>> uniform = [np.full((count, 2), 0.5) for count in source.num_decisions]
    >>> response = build_response_game(source, build_decision_tree(source), uniform, responder=0)
    >>> settings = IsmctsBr(simulations=100, scale=2.0)  # payoffs in Kuhn poker are up to 2
    >>> payoffs = response_matches.play(
    ...     response, None, jax.random.key(0), settings=settings, num_games=200
    ... )
    >>> payoffs.shape, bool(payoffs.mean() > 0)
    ((200,), True)
"""
