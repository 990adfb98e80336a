"""The sequence form: a game compiled to the arrays that exact solvers sweep over.

`build_sequence_form` compiles a game or an explicit tree; `treeplex` lays out one player's
sequences, `sweeps` goes over them, and `sparse_sum` is the kernel below.
"""

from solvers.sequence_form.sequence_form import (
    Histories,
    Policy,
    PublicStates,
    RootReach,
    SequenceForm,
    Terminals,
    build_sequence_form,
    checked_histories,
    checked_root_reach,
    pack,
    uniform,
    unpack,
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
