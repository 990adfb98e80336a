"""The command line: `jaxgames COMMAND`, or `python -m experiments COMMAND`.

Errors that our code reports are one line on stderr and exit code 2; Ctrl-C and SIGTERM give exit
code 130 and the command that resumes.
"""

from __future__ import annotations

import dataclasses
import gc
import shlex
import sys
import traceback
from collections.abc import Mapping, Sequence

import tyro
from rich.console import Console
from rich.table import Table

from experiments import compilation_cache
from experiments.harness.interrupts import termination_interrupts
from experiments.registry import COMMANDS, EXPERIMENTS, TOOLS, Entry, load

MODULE = "python -m experiments"
_REPORTED = (ValueError, OSError, ImportError, FloatingPointError)
_SEEDS = 2**32  # as many as JAX tells apart in 32 bits
_PACKAGES = ("experiments", "train", "nets", "solvers", "jaxgames")


def console(program: str = "jaxgames") -> int:
    """The console command `jaxgames`, which keeps compiled programs (see `compilation_cache`)."""
    # With Python's own threshold of 700 objects, the collector takes a quarter of a short command.
    gc.set_threshold(100_000, 50, 100)
    if sys.argv[1:] and _underscored(sys.argv[1]) in COMMANDS:
        compilation_cache.turn_on()
    try:
        code = main(program=program)
    except Exception:
        traceback.print_exc()
        code = 1
    gc.freeze()  # the process ends: its last collection need not look through all modules
    if code and "jax" in sys.modules:
        from experiments.harness import devices  # imports JAX

        devices.end_with_all(code)
    return code


def main(argv: Sequence[str] | None = None, *, program: str = MODULE) -> int:
    """Runs a command, whose name may have hyphens for underscores.

    Args:
      argv: the words of the command line after the program; None: this process's.
      program: how the program was called, for texts that people read.

    Returns:
      The exit code.

    Raises:
      SystemExit: help was asked for (code 0), or the options do not fit the command (code 2).
    """
    argv = [*(sys.argv[1:] if argv is None else argv)]
    resumes = False
    try:
        argv[:1] = [name := _command_name(argv, program)]
        command = load(name)
        resumes = hasattr(command.arguments, "resume")
        arguments = tyro.cli(
            command.arguments,
            prog=f"{program} {name}",
            args=argv[1:],
            use_underscores=True,
            config=(tyro.conf.FlagCreatePairsOff,),
        )
        _check_seeds(arguments)
        recorded = shlex.join([*MODULE.split(), *argv])
        with termination_interrupts():
            return command.main(arguments, command=recorded) or 0
    except (KeyboardInterrupt, Exception) as error:
        if isinstance(error, KeyboardInterrupt) or _lost_another(error):
            why = "another process has ended" if _lost_another(error) else str(error)
            print(f"interrupted: {why}" if why else "interrupted", file=sys.stderr)
            if resumes:
                print(f"resume with: {resuming(argv, program)}", file=sys.stderr)
            return 130
        if not isinstance(error, _REPORTED) or not _is_ours(error):
            raise
        print(f"error: {one_line(error)}", file=sys.stderr)
        return 2


def _check_seeds(arguments: object) -> None:
    """Refuses seeds that generators of random numbers do not take."""
    for field in dataclasses.fields(arguments) if dataclasses.is_dataclass(arguments) else ():
        value = getattr(arguments, field.name)
        if field.name == "seed" and value is not None and not 0 <= value < _SEEDS:
            raise ValueError(f"seed={value} must be from 0 to {_SEEDS - 1:,}")
        _check_seeds(value)


def _command_name(argv: Sequence[str], program: str) -> str:
    """The command that is asked for; prints the help if that is asked for instead."""
    if argv and _underscored(argv[0]) in COMMANDS:
        return _underscored(argv[0])
    if argv and not argv[0].startswith("-"):
        from jaxgames.registry import unknown  # imports JAX

        raise ValueError(unknown("command", argv[0], COMMANDS))
    asked = bool(argv) and argv[0] in ("-h", "--help")
    print_help(program, Console(stderr=not asked))
    raise SystemExit(0 if asked else 2)


def _underscored(word: str) -> str:
    return word.replace("-", "_")


def print_help(program: str, console: Console) -> None:
    """Prints all commands, with one line for each."""
    console.print(f"usage: {program} COMMAND [OPTIONS]", markup=False, highlight=False)
    console.print(f"       {program} COMMAND --help\n", markup=False, highlight=False)
    console.print("Games, their solvers, and experiments that reproduce figures of papers.\n")
    folders = dict.fromkeys(entry.module.partition(".")[0] for entry in EXPERIMENTS.values())
    console.print(_summaries("Commands", TOOLS))
    for folder in folders:
        entries = {
            name: entry
            for name, entry in EXPERIMENTS.items()
            if entry.module.startswith(f"{folder}.")
        }
        console.print(_summaries(f"Experiments: {folder.replace('_', ' ')}", entries))


def _summaries(title: str, entries: Mapping[str, Entry]) -> Table:
    table = Table(
        title=title, title_justify="left", title_style="bold", show_header=False, box=None
    )
    table.add_column(no_wrap=True, min_width=max(map(len, COMMANDS)))
    table.add_column()
    for name, entry in entries.items():
        table.add_row(name, entry.summary)
    return table


def resuming(argv: Sequence[str], program: str = MODULE) -> str:
    """The command that continues an interrupted one."""
    kept = [word for word in argv if word not in ("--overwrite", "--resume")]
    return shlex.join([*program.split(), *kept, "--resume"])


def one_line(error: Exception) -> str:
    """An error's message without line breaks."""
    if isinstance(error, OSError) and error.strerror:
        where = f": {error.filename}" if error.filename else ""
        return f"{error.strerror}{where}"
    return " ".join(str(error).split())


def _lost_another(error: BaseException) -> bool:
    """Whether one of several processes has gone; Gloo is what connects them on CPUs."""
    return "Gloo" in str(error)


def _is_ours(error: Exception) -> bool:
    """Whether our code has raised the error about its input; any other error is a defect."""
    if isinstance(error, OSError):
        return True
    frames = list(traceback.walk_tb(error.__traceback__))
    raised_in = frames[-1][0].f_globals.get("__name__", "")
    return raised_in.partition(".")[0] in _PACKAGES
