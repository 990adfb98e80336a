"""The sequence form: a game compiled to the arrays that exact solvers sweep over.

`build_sequence_form` compiles a game or an explicit tree; `treeplex` lays out one player's
sequences, `sweeps` goes over them, and `sparse_sum` is the kernel below.
"""

from solvers.sequence_form.sequence_form import (
    Policy,
    PublicStates,
    RootReach,
    SequenceForm,
    build_sequence_form,
    checked_root_reach,
    pack,
    uniform,
    unpack,
    with_returns,
)

__all__ = [
    "Policy",
    "PublicStates",
    "RootReach",
    "SequenceForm",
    "build_sequence_form",
    "checked_root_reach",
    "pack",
    "uniform",
    "unpack",
    "with_returns",
]
