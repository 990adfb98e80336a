"""Blueprints of whole games of hold'em: policies by buckets, and how exploitable they are.

- `betting_rounds` finds the rounds of a betting tree, by street and shape; `bucket_game` has such
  trees with the buckets of a `jaxgames.holdem.card_abstraction`.
- `board_sampled_cfr.iterate` is linear CFR (or another minimiser) on a board that is drawn;
  `deals.make_deal` makes a board's hands.
- `cfr_br.iterate` learns against an opponent that plays a best response on the last street.
- `bucket_uct` is UCT and Smooth UCT by self-play of two or more players, on deals of `dealt_hands`
  that `betting_walk` plays; in a `duplicate_match` policies by bucket play each other.
- A `blueprint` is a policy with its buckets, which can be kept in a folder; `enumerated_match` lets
  two of them play, `hand_policy` lets others play against one, and `best_response` computes what a
  player who sees its cards wins from it in the real game.
"""
