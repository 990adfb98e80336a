"""Figures: everything that has a label is explained once, below the panels."""

import pytest

from experiments.harness import plots


def drawn(path, *panels, spread=True, size=(5.0, 3.0)):
    """The figure of panels of lines, by their names, after it has been written."""
    with plots.figure(path, rows=1, columns=len(panels), size=size) as axes:
        for panel, names in zip(axes[0], panels, strict=True):
            samples = [[1.0, 2.0], [3.0, 4.0]] if spread else [[1.0], [3.0]]
            lines = [plots.Band(name=name, x=[1, 2], samples=samples) for name in names]
            plots.bands(panel, lines, published={}, x_label="x")
    return axes[0, 0].figure


def texts(legend):
    return [text.get_text() for text in legend.get_texts()]


def test_lines_that_look_alike_in_all_panels_are_explained_once(tmp_path):
    figure = drawn(tmp_path / "plot.png", ["a", "b"], ["a", "b"])
    (legend,) = figure.legends
    assert texts(legend) == ["a", "b", "band: least to most"]
    assert all(panel.get_legend() is None for panel in figure.axes)


def test_lines_that_look_different_are_explained_below_each_panel(tmp_path):
    figure = drawn(tmp_path / "plot.png", ["a", "b"], ["b", "a"], spread=False)
    assert not figure.legends
    assert [texts(panel.get_legend()) for panel in figure.axes] == [["a", "b"], ["b", "a"]]


@pytest.mark.parametrize("names", [["a"], ["long names of lines " * 3 + str(n) for n in range(9)]])
def test_a_legend_stays_within_the_figure_and_leaves_the_panel_its_size(names, tmp_path):
    figure = drawn(tmp_path / "plot.png", names)
    (legend,) = figure.legends
    whole = figure.bbox
    box = legend.get_window_extent()
    assert whole.x0 <= box.x0 < box.x1 <= whole.x1
    panel = figure.axes[0].get_window_extent()
    assert box.y1 <= panel.y0
    assert panel.height > 0.6 * 3.0 * figure.dpi


def test_bands_say_what_they_are(tmp_path):
    with plots.figure(tmp_path / "plot.png", rows=1, columns=1, size=(5.0, 3.0)) as axes:
        line = plots.Band(name="a", x=[1, 2], samples=[[1.0, 2.0], [3.0, 4.0]], confidence=True)
        plots.bands(axes[0, 0], [line], published={}, x_label="x")
    assert texts(axes[0, 0].figure.legends[0]) == ["a", "band: two standard errors"]
