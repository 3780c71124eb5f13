"""What a drawn picture says and shows."""

from matplotlib.colors import to_hex
from matplotlib.patches import Rectangle
from matplotlib.text import Text

from bias_metrics.plot._colours import UNDEFINED

GREY = to_hex(UNDEFINED)


def texts(figure):
    return [text.get_text() for text in figure.findobj(Text) if text.get_text()]


def colours(figure):
    """Colours of the cells, row by row."""
    cells = [
        one
        for one in figure.axes[0].patches
        if isinstance(one, Rectangle) and one.get_width() == 1 == one.get_height()
    ]
    cells.sort(key=lambda one: (one.get_y(), one.get_x()))
    return [to_hex(one.get_facecolor()) for one in cells]


def weight(figure, start):
    (found,) = figure.findobj(lambda one: isinstance(one, Text) and start in one.get_text())
    return found.get_weight()


def written(figure, folder):
    path = folder / "picture.png"
    figure.savefig(path, dpi=40)
    return path.read_bytes().startswith(b"\x89PNG") and path.stat().st_size > 1000
