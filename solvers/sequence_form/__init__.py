"""The sequence form: a game compiled to the arrays that exact solvers sweep over.

`build_sequence_form` compiles a game or an explicit tree. `treeplex` lays out one player's
sequences, `sweeps` goes down and up over them, `policy_tables` translates policies, and
`sparse_sum` is the kernel underneath.
"""

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
    "checked_histories",
    "checked_root_reach",
    "pack",
    "uniform",
    "unpack",
    "with_returns",
]
