"""Evaluations that draw nothing, where a test looks at no picture."""

from PIL import Image

from biasgate.tasks.reporting import figures


def undrawn(patch):
    """Let evaluations of this process write pictures of one point: drawing is a quarter of them."""
    point = Image.new("L", (1, 1))
    patch.setattr(figures, "_write", lambda figure, path, dpi: point.save(path))  # noqa: ARG005
