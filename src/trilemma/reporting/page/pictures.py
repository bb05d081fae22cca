"""Pictures as text, to stand in a page that fetches nothing."""

from __future__ import annotations

import base64
import io
from collections.abc import Sequence

import numpy as np

__all__ = ["picture"]


def picture(levels: Sequence[int], shape: tuple[int, int, int]) -> str:
    """Levels 0 .. 255 of a picture [c, h, w], grey or of three colours, as a PNG in a data URI.

    >>> picture([0, 255], (1, 1, 2))[:27]
    'data:image/png;base64,iVBOR'
    """
    from PIL import Image

    pixels = np.asarray(levels, dtype=np.uint8).reshape(shape)
    image = Image.fromarray(np.moveaxis(pixels, 0, -1) if shape[0] == 3 else pixels[0])
    stream = io.BytesIO()
    image.save(stream, "PNG")
    return f"data:image/png;base64,{base64.b64encode(stream.getvalue()).decode()}"
