"""A figure that notebooks show, also where pyplot was never imported."""

import io
import warnings

from matplotlib.figure import Figure

DOTS_PER_INCH = 100


class ShownFigure(Figure):
    """A matplotlib figure with the image that notebooks ask for."""

    def _repr_png_(self) -> bytes:
        held = io.BytesIO()
        with warnings.catch_warnings():
            # Names may be in any script; a glyph that the font lacks is drawn as a box.
            warnings.filterwarnings("ignore", message="Glyph .* missing from font")
            self.savefig(held, format="png", dpi=DOTS_PER_INCH, metadata={"Software": None})
        return held.getvalue()
