"""The sequence form: a game compiled to the arrays that exact solvers sweep over.

`build_sequence_form` compiles a game or an explicit tree, `sequence_form_of_beliefs` a belief-level
game, whose rows may merge information states. `treeplex` lays out one player's sequences, `sweeps`
goes down and up over them, `policy_tables` translates policies, and `sparse_sum` is the kernel
underneath.
"""

from solvers.sequence_form.from_beliefs import by_public_state, sequence_form_of_beliefs
from solvers.sequence_form.policy_tables import (
    Policy,
    RootReach,
    checked_root_reach,
    pack,
    uniform,
    unpack,
)
from solvers.sequence_form.sequence_form import (
    Histories,
    PublicStates,
    SequenceForm,
    Terminals,
    build_sequence_form,
    checked_histories,
    with_returns,
)

__all__ = [
    "Histories",
    "Policy",
    "PublicStates",
    "RootReach",
    "SequenceForm",
    "Terminals",
    "build_sequence_form",
    "by_public_state",
    "checked_histories",
    "checked_root_reach",
    "pack",
    "sequence_form_of_beliefs",
    "uniform",
    "unpack",
    "with_returns",
]
