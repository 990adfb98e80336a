"""Best responses to agents whose policies are known, learned by search (Timbers et al. 2020).

With the opponent fixed, a game is a game of chance for the one who responds. Its parts:

- `episodes.Playable`: the game; a `DecisionTree` if it enumerates, else an `IndexedGame`.
- `Opponent`: who plays against the responder. `policy(node)` is asked inside of searches,
  `act(node, key)` in games, where by default it draws from `policy`. See `opponents`.
- `Belief`: where the game may be by what the responder knows, exactly: `posterior.Posterior` of a
  compiled game, `PerfectInformation`, or one of a game's own that keeps a memory (of the chances of
  hands, say) and is told of every decision.
- `ResponseGame` puts them together, and says which player responds.

`ismcts_br.search` searches from one place for the responder; `games` plays with it, and composes
all that it would do into a table. `train.best_response_training` trains the network that it asks.

    source = enumerate_game(make("leduc_poker"))
    tree = build_decision_tree(source)
    response = against(source, tree, policies, responder=0)
    settings = IsmctsBr(simulations=1000, scale=13.0)
    payoffs = games.play(response, None, key, settings=settings, num_games=1000)

In a game by its rules, with an opponent whose policy is a function of the state:

    game = indexed_game(make("limit_holdem"), num_states=2**31 - 1)
    opponent = by_rules(game, policy, params)  # policy(params, state) -> [A]
    response = ResponseGame(game=game, opponent=opponent, belief=mine, responder=jnp.int32(0))
"""
