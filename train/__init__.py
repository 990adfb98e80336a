"""Training, jitted end to end: examples, replay, losses, learner, query solver."""
