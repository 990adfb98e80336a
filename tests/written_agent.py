"""An agent in a folder, without the time that training takes."""

import dataclasses

from flax import nnx

from experiments.harness import results
from experiments.student_of_games import sog_leduc
from nets import cvpn, parameters
from train.agent import game_table


def write_agent(folder, **changes):
    """What `sog_leduc` leaves, of a network before training."""
    config = dataclasses.asdict(sog_leduc.PRESETS["smoke"])
    table = game_table(config["game"])
    network = cvpn.new_cvpn(table, seed=0, width=config["width"], depth=config["depth"])
    folder.mkdir()
    results.write_file(folder / "network.npz", parameters.to_bytes(nnx.split(network)[1]))
    result = results.make_result(
        experiment="sog_leduc",
        preset="smoke",
        config=config | changes,
        command="",
        usage=results.Usage(),
        numbers=[],
    )
    results.write_result(folder, result)
    return folder
