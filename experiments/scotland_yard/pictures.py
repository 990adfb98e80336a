"""Pictures of games of Scotland Yard: the map, the detectives, and where Mr X may be.

A picture shows a game after a turn, which is Mr X's move (or both moves of a double card) and the
detectives' answers. Stations are the darker, the more probable it is that Mr X is there. A strip
has a panel for every turn; an animation shows one turn after the other, with the log of Mr X's
tickets below.
"""

from __future__ import annotations

import dataclasses
import io
import pathlib
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from experiments.harness import results
from experiments.scotland_yard.recorded_games import Moment
from jaxgames.core import TERMINAL
from jaxgames.scotland_yard.board import WON
from jaxgames.scotland_yard.coordinates import coordinates
from jaxgames.scotland_yard.maps import KINDS, NOWHERE, TICKETS
from jaxgames.scotland_yard.rules import ScotlandYard

COLOURS = {  # of lines and tickets, as on the board
    "taxi": "#EDB100",
    "bus": "#2A9D8F",
    "underground": "#D1495B",
    "ferry": "#222222",
    "black": "#222222",
}
_WIDTHS = {"taxi": 0.9, "bus": 1.3, "underground": 2.0, "ferry": 1.6}  # points
_DETECTIVES, _MR_X, _EMPTY = "#12355B", "#000000", "#FFFFFF"
_BESIDE = 0.09  # units of length from a line to one of another kind
_GAP = 0.2  # units of length between a station and the way of a detective who left it
_SPOT = 8.8  # points across a station
_MOST_NUMBERED = 40  # stations that have their numbers in a strip
_GAMMA = 0.4  # of the colours of probabilities, so that small ones can be told apart
_PROBABILITIES = (0.01, 0.05, 0.2, 0.5, 1.0)  # named in legends
_COLUMNS = 4  # of a strip
_SECONDS, _LAST_SECONDS = 1.5, 5.0  # that an animation shows a turn, and the last
_PANEL, _FRAME, _LOG = 3.6, 8.0, 0.6  # inches: widths of panel and frame, height of the log
_STRIP_DPI, _FRAME_DPI = 110, 110


@dataclasses.dataclass(frozen=True, kw_only=True)
class Turn:
    """A game after a turn."""

    moments: tuple[Moment, ...]  # of the turn; the first turn is the deal
    before: Moment | None  # the end of the turn before

    @property
    def end(self) -> Moment:
        """The game after the turn."""
        return self.moments[-1]

    @property
    def his(self) -> list[Moment]:
        """Mr X's moves with tickets."""
        return [m for m in self.moments if m.player == 0 and m.ticket in TICKETS]


def turns(moments: Sequence[Moment]) -> list[Turn]:
    """The turns of a recorded game, the deal first."""
    found, begun, before = [], [], None
    for moment in moments:
        begun.append(moment)
        board = moment.state.board
        if moment.state.actor == TERMINAL or (board.turn == 0 and board.doubling == 0):
            found.append(Turn(moments=tuple(begun), before=before))
            begun, before = [], moment
    return found


def title(game: ScotlandYard, turn: Turn) -> str:
    """What Mr X did in a turn, and how the game ended if it did."""
    his, number = turn.his, lambda station: game.layout.numbers[int(station)]
    rounds = [int(moment.state.board.moves) for moment in his]
    plural = "s" if len(rounds) > 1 else ""
    text = f"Round{plural} {' and '.join(map(str, rounds))}: " if rounds else "Start"
    text += ", ".join(
        moment.ticket + (f", shown at {number(moment.state.mr_x)}" if moment.shows else "")
        for moment in his
    )
    state = turn.end.state
    if state.actor != TERMINAL:
        return text
    if state.result == WON:
        return f"{text}; Mr X gets away"
    caught = state.mr_x in state.board.detectives
    return text + (f"; caught at {number(state.mr_x)}" if caught else "; Mr X cannot move")


def write_strip(
    path: pathlib.Path, game: ScotlandYard, moments: Sequence[Moment], *, open_cards: bool = True
) -> None:
    """Writes all turns of a game as the panels of one picture.

    Args:
      path: of a PNG file.
      game: the rules.
      moments: of `record_game`.
      open_cards: whether Mr X's true station is ringed; else only where he shows himself.
    """
    played = turns(moments)
    places = coordinates(game.map)
    numbers = len(places) <= _MOST_NUMBERED
    columns = min(_COLUMNS, len(played))
    rows = -(-len(played) // columns)
    panel = _panel_size(places, _PANEL)
    figure = _figure((columns * panel[0], rows * (panel[1] + 0.25) + 0.75))
    height = figure.get_figheight()
    grid = figure.add_gridspec(
        rows, columns, left=0.005, right=0.995, top=1 - 0.25 / height, bottom=0.6 / height,
        wspace=0.02, hspace=0.25 / panel[1],
    )  # fmt: skip
    for number, turn in enumerate(played):
        axes = figure.add_subplot(grid[number // columns, number % columns])
        _draw_map(axes, game, places, numbers=numbers)
        _draw_turn(axes, game, turn, places, numbers=numbers, open_cards=open_cards)
        axes.set_title(title(game, turn), fontsize=7.5, loc="left", pad=2)
    _explain(figure, game, open_cards)
    figure.set_dpi(_STRIP_DPI)
    figure.canvas.draw()
    _write(path, _pixels(figure), format="PNG", optimize=True)


def write_animation(
    path: pathlib.Path, game: ScotlandYard, moments: Sequence[Moment], *, open_cards: bool = True
) -> None:
    """Writes a game as an animated GIF, with a picture for every turn.

    Args:
      path: of a GIF file.
      game: the rules.
      moments: of `record_game`.
      open_cards: whether Mr X's true station is ringed; else only where he shows himself.
    """
    played = turns(moments)
    frames = [*_frames(game, played, open_cards)]
    seconds = [_SECONDS] * (len(frames) - 1) + [_LAST_SECONDS]
    milliseconds = [round(1000 * duration) for duration in seconds]
    more = dict(save_all=True, append_images=frames[1:], duration=milliseconds, loop=0)
    _write(path, frames[0], format="GIF", optimize=True, **more)


def _frames(game, played, open_cards) -> Iterator[Any]:
    """The picture after each of some turns."""
    places = coordinates(game.map)
    panel = _panel_size(places, _FRAME)
    figure = _figure((panel[0], panel[1] + _LOG + 0.75))
    height = figure.get_figheight()
    below = 0.45 / height
    axes = figure.add_axes((0.0, below + _LOG / height, 1.0, panel[1] / height))
    log = figure.add_axes((0.01, below, 0.98, _LOG / height))
    _draw_map(axes, game, places, numbers=True)
    _draw_log(log, game)
    _explain(figure, game, open_cards)
    figure.set_dpi(_FRAME_DPI)
    figure.canvas.draw()
    empty = figure.canvas.copy_from_bbox(figure.bbox)
    for number, turn in enumerate(played, start=1):
        figure.canvas.restore_region(empty)
        text = title(game, turn)
        figure.draw_artist(figure.text(0.012, 1 - 0.08 / height, text, fontsize=11, va="top"))
        new = _draw_turn(axes, game, turn, places, numbers=True, open_cards=open_cards)
        new += _fill_log(log, game, played[:number])
        for artist in sorted(new, key=lambda artist: artist.get_zorder()):
            artist.axes.draw_artist(artist)
            artist.remove()
        yield _pixels(figure)


def _draw_map(axes, game, places, *, numbers) -> None:
    """Draws the stations and lines, lines of several kinds side by side."""
    from matplotlib.collections import LineCollection

    low, high = places.min(axis=0) - 0.5, places.max(axis=0) + 0.5
    axes.set(xlim=(low[0], high[0]), ylim=(low[1], high[1]))
    axes.axis("off")
    scale, edges = _scale(places, axes), game.layout.edges
    ends = places[edges[:, :2]]
    along = ends[:, 1] - ends[:, 0]
    across = along[:, ::-1] * (-1, 1) / np.linalg.norm(along, axis=1, keepdims=True)
    pair = edges[:, 0] * len(places) + edges[:, 1]
    same = pair[:, None] == pair[None]
    rank = np.sum(same & (edges[None, :, 2] < edges[:, 2, None]), axis=1)
    shift = (rank - (same.sum(axis=1) - 1) / 2) * _BESIDE
    ends = ends + (across * shift[:, None])[:, None]
    for kind, width in _WIDTHS.items():
        style = dict(colors=COLOURS[kind], linewidths=scale * width, linestyles=_line(kind))
        axes.add_collection(LineCollection(ends[edges[:, 2] == KINDS.index(kind)], **style))
    size = (_SPOT * scale) ** 2
    style = dict(edgecolors="#777777", linewidths=0.5 * scale, zorder=3)
    axes.scatter(*places.T, s=size if numbers else 0.2 * size, c=_EMPTY, **style)
    if numbers:
        for number, place in zip(game.layout.numbers, places, strict=True):
            _number(axes, place, number, scale, "#222222", zorder=4)


def _draw_turn(axes, game, turn, places, *, numbers, open_cards) -> list[Any]:
    """Draws what has become of a turn onto the map, and returns what was drawn."""
    state, share = turn.end.state, turn.end.probability
    scale = _scale(places, axes)
    size = (_SPOT * scale) ** 2
    order = np.argsort(share)[np.sort(share) > 0]
    style = dict(edgecolors="#555555", linewidths=0.5 * scale, zorder=5)
    drawn = [axes.scatter(*places[order].T, s=1.3 * size, c=_shades(share[order]), **style)]
    if numbers:
        for station in order:
            ink = "white" if share[station] > 0.15 else "#222222"
            number = game.layout.numbers[station]
            drawn.append(_number(axes, places[station], number, scale, ink, zorder=6))
    stations = state.board.detectives
    if turn.before is not None:
        for ends in zip(turn.before.state.board.detectives, stations, strict=True):
            begin, end = places[[*ends]]
            begin = begin + _GAP * (end - begin) / max(np.linalg.norm(end - begin), _GAP)
            style = dict(color=_DETECTIVES, linewidth=2.4 * scale, zorder=2, alpha=0.8)
            drawn += axes.plot(*np.stack([begin, end]).T, **style)
    style = dict(c=_DETECTIVES, edgecolors="white", linewidths=0.6 * scale, zorder=7)
    drawn.append(axes.scatter(*places[stations].T, s=1.7 * size, marker="s", **style))
    for number, (x, y) in enumerate(places[stations], start=1):
        style = dict(fontsize=0.72 * _SPOT * scale, color="white", weight="bold", zorder=8)
        drawn.append(axes.text(x, y, str(number), **style, **_CENTRED))
    shown = any(moment.shows for moment in turn.his) or state.actor == TERMINAL
    if state.mr_x != NOWHERE and (open_cards or shown):
        ring = dict(s=3.2 * size, facecolors="none", linewidths=1.8 * scale, zorder=9)
        drawn.append(axes.scatter(*places[[state.mr_x]].T, edgecolors=_MR_X, **ring))
    return drawn


_CENTRED = {"ha": "center", "va": "center_baseline"}


def _line(kind) -> str | tuple:
    """The style of lines of a kind."""
    return (0, (2, 1.5)) if kind == "ferry" else "solid"


def _number(axes, place, number, scale, ink, **style) -> Any:
    """Writes the number of a station."""
    return axes.text(*place, str(number), fontsize=4.7 * scale, color=ink, **style, **_CENTRED)


def _shades(shares) -> Float[np.ndarray, "n 4"]:
    """The colours of n probabilities."""
    from matplotlib import colormaps

    return colormaps["Purples"](0.25 + 0.75 * np.asarray(shares) ** _GAMMA)


def _draw_log(axes, game) -> None:
    """Draws an empty box for each of Mr X's moves, those after which he shows himself framed."""
    for number in range(1, game.rounds + 1):
        shows = bool(game.reveal_mask[number])
        style = dict(edgecolor="black" if shows else "#BBBBBB", linewidth=1.6 if shows else 0.6)
        axes.add_patch(_box(number, facecolor=_EMPTY, **style))
        axes.text(number, 0.84, str(number), fontsize=6.5, color="#555555", **_CENTRED)
    axes.set(xlim=(0.5, max(game.rounds, 12) + 0.5), ylim=(-0.05, 1.0))
    axes.axis("off")


def _fill_log(axes, game, played) -> list[Any]:
    """Fills the boxes with the colours of Mr X's tickets, and returns what was drawn."""
    drawn = []
    for moment in (moment for turn in played for moment in turn.his):
        number = int(moment.state.board.moves)
        edge = "black" if game.reveal_mask[number] else "#BBBBBB"
        drawn.append(axes.add_patch(_box(number, facecolor=COLOURS[moment.ticket], edgecolor=edge)))
        if moment.shows:
            text = str(game.layout.numbers[moment.state.mr_x])
            style = dict(fontsize=7.5, color="white", weight="bold")
            drawn.append(axes.text(number, 0.31, text, **style, **_CENTRED))
    return drawn


def _box(number, **style) -> Any:
    from matplotlib.patches import Rectangle

    return Rectangle((number - 0.46, 0.0), 0.92, 0.64, **style)


def _explain(figure, game, open_cards) -> None:
    """Adds the legend."""
    from matplotlib.lines import Line2D

    def spot(label, **style):
        return Line2D([], [], linestyle="none", label=label, **style)

    kinds = [KINDS[kind] for kind in np.unique(game.layout.edges[:, 2])]
    entries = [
        Line2D(
            [],
            [],
            color=COLOURS[kind],
            linestyle=_line(kind),
            label=kind,
            linewidth=1.2 * _WIDTHS[kind],
        )
        for kind in kinds
    ]
    entries.append(spot("detective", marker="s", color=_DETECTIVES, markersize=6))
    ring = dict(markerfacecolor="none", markeredgecolor=_MR_X, markeredgewidth=1.4, markersize=8)
    entries.append(spot("Mr X" if open_cards else "Mr X, shown", marker="o", **ring))
    for share in _PROBABILITIES:
        style = dict(
            color=tuple(_shades([share])[0]), markeredgecolor="#555555", markeredgewidth=0.5
        )
        text = f"{share:.0%}" + (" that he is there" if share == _PROBABILITIES[-1] else "")
        entries.append(spot(text, marker="o", markersize=7.5, **style))
    figure.legend(
        handles=entries, loc="lower center", ncols=len(entries) if figure.get_figwidth() > 9 else 6,
        frameon=False, fontsize=7.5, handletextpad=0.4, columnspacing=1.2, borderaxespad=0.2,
    )  # fmt: skip


def _scale(places, axes) -> float:
    """How large things are drawn: 1 in a frame of London's map, and never less than 0.55."""
    inches_per_unit = axes.bbox.width / axes.figure.dpi / (np.ptp(places[:, 0]) + 1.0)
    return float(np.clip(inches_per_unit / 0.515, 0.55, 2.0))


def _panel_size(places: Float[np.ndarray, "N 2"], width: float) -> tuple[float, float]:
    """Width and height in inches of the picture of a map."""
    across, up = np.ptp(places, axis=0) + 1.0
    return width, width * max(up / across, 0.25)


def _figure(size) -> Any:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    return FigureCanvasAgg(Figure(figsize=size)).figure


def _pixels(figure) -> Any:
    """What is on a figure's canvas, as an image of Pillow with few colours."""
    from PIL import Image

    image = Image.fromarray(np.asarray(figure.canvas.buffer_rgba())[..., :3])
    palette = Image.new("P", (1, 1))
    palette.putpalette(_palette().ravel().tolist())
    return image.quantize(palette=palette, dither=Image.Dither.NONE)


def _palette() -> Int[np.ndarray, "256 3"]:
    """Greys, shades of probabilities, and all other colours in mixtures with white."""
    from matplotlib.colors import to_rgb

    greys = np.linspace(0, 1, 16)[:, None] * np.ones(3)
    shades = _shades(np.linspace(0, 1, 24) ** (1 / _GAMMA))[:, :3]
    colours = np.array([to_rgb(colour) for colour in (*COLOURS.values(), _DETECTIVES)])
    mixtures = 1 - np.linspace(1, 0.15, 7)[:, None, None] * (1 - colours)
    found = np.concatenate([greys, shades, mixtures.reshape(-1, 3)])
    return np.round(255 * np.resize(found, (256, 3))).astype(int)


def _write(path, image, **options) -> None:
    content = io.BytesIO()
    image.save(content, **options)
    results.write_file(path, content.getvalue())
