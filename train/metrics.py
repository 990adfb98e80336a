"""Metrics of a run by step, as JSON lines and for TensorBoard."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path

import jax
from jaxtyping import Array

from jaxgames.files import write_file

METRICS_FILE = "metrics.jsonl"


class MetricsWriter:
    """Writes one line per step to `metrics.jsonl`, and the same metrics to TensorBoard's events.

    Of several processes only the first should write (`jax.process_index() == 0`).

    Args:
      folder: of the run.
      step: the step at which the run goes on; lines that an interrupted run wrote for this or later
        steps are dropped.
    """

    def __init__(self, folder: Path | str, *, step: int = 0):
        import tensorboardX  # slow to import

        path = Path(folder) / METRICS_FILE
        path.parent.mkdir(parents=True, exist_ok=True)
        kept = [line for line in _lines(path) if json.loads(line)["step"] < step]
        write_file(path, "".join(kept))
        self._file = path.open("a", encoding="utf-8")
        self._board = tensorboardX.SummaryWriter(str(folder), purge_step=step, flush_secs=10)

    def write(self, step: int, metrics: Mapping[str, Array | float]) -> None:
        """Writes the metrics of one step; numbers that are not finite are null in JSON."""
        values = {name: float(value) for name, value in jax.device_get(dict(metrics)).items()}
        known = {name: value if math.isfinite(value) else None for name, value in values.items()}
        self._file.write(json.dumps({"step": step, **known}) + "\n")
        self._file.flush()
        for name, value in values.items():
            self._board.add_scalar(name, value, step)

    def close(self) -> None:
        """Flushes and closes both files."""
        self._file.close()
        self._board.close()

    def __enter__(self) -> MetricsWriter:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def read_metrics(folder: Path | str) -> list[dict[str, int | float | None]]:
    """The metrics that a `MetricsWriter` has written, a record with its "step" for each line.

    Args:
      folder: of the run; one without metrics has no records.
    """
    return [json.loads(line) for line in _lines(Path(folder) / METRICS_FILE)]


def _lines(path):
    """The complete lines of a file; a killed run may have left half a line."""
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    return [line for line in text.splitlines(keepends=True) if line.endswith("\n")]
