"""Metrics as JSON lines and TensorBoard events, across interruptions."""

import json
import struct

import jax.numpy as jnp
import pytest
from tensorboardX.proto.event_pb2 import Event

from train.metrics import MetricsWriter, read_metrics


def events(folder):
    """Reads (step, name, value) of all scalars. An event file is a sequence of records: the length
    (8 bytes), its checksum (4), the content, and the content's checksum (4)."""
    scalars = []
    for path in sorted(folder.glob("events*")):
        content = path.read_bytes()
        while content:
            (length,) = struct.unpack("<Q", content[:8])
            event = Event.FromString(content[12 : 12 + length])
            scalars += [(event.step, v.tag, v.simple_value) for v in event.summary.value]
            content = content[16 + length :]
    return scalars


def lines(folder):
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


def test_every_step_is_on_disk_at_once(tmp_path):
    with MetricsWriter(tmp_path / "run") as writer:
        writer.write(0, {"loss": jnp.float32(0.5), "queue": jnp.int32(3)})
        assert lines(tmp_path / "run") == [{"step": 0, "loss": 0.5, "queue": 3.0}]
        writer.write(7, {"loss": float("nan")})
    assert lines(tmp_path / "run")[1:] == [{"step": 7, "loss": None}]
    scalars = events(tmp_path / "run")
    assert scalars[:2] == [(0, "loss", 0.5), (0, "queue", 3.0)]
    assert scalars[2][:2] == (7, "loss")


def test_a_resumed_run_continues_from_its_step(tmp_path):
    """Steps after the checkpoint and an incomplete last line are dropped and written anew."""
    with MetricsWriter(tmp_path) as writer:
        for step in range(4):
            writer.write(step, {"loss": float(step)})
    with (tmp_path / "metrics.jsonl").open("a") as file:
        file.write('{"step": 4, "lo')
    with MetricsWriter(tmp_path, step=2) as writer:
        writer.write(2, {"loss": 20.0})
    assert [line["loss"] for line in lines(tmp_path)] == [0, 1, 20]
    assert read_metrics(tmp_path) == lines(tmp_path)
    assert read_metrics(tmp_path / "none") == []


def test_names_and_numbers_only(tmp_path):
    with MetricsWriter(tmp_path) as writer, pytest.raises(TypeError):
        writer.write(0, {"loss": jnp.zeros(2)})
