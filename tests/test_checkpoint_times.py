"""When checkpoints are due."""

from experiments.harness import checkpoint_times


def test_large_checkpoints_take_at_most_a_tenth_of_the_time(monkeypatch):
    now = 0.0
    monkeypatch.setattr(checkpoint_times.time, "monotonic", lambda: now)
    times = checkpoint_times.CheckpointTimes()
    for takes, waits in ((1.0, 60.0), (70.0, 700.0), (1.0, 60.0)):
        now += 59.0
        while not times.due():
            now += 1.0
        with times.writing():
            now += takes
        now += waits - 1.0
        assert not times.due()
        now += 1.0
        assert times.due()
