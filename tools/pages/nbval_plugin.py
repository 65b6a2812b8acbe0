"""A pytest plugin that adds to nbval what it lacks: pictures are compared, pixel by pixel.

With the locked Matplotlib the same data give the same pixels. Numbers that differ in their last
digits may move the shade of an edge, seldom more; another curve, bar or legend moves far more.
"""

import base64
import io

import numpy as np
from nbval.plugin import IPyNbCell
from PIL import Image

from pages import MEASURED_FIGURE

SHADE = 24  # of 255: a pixel that differs by more is another pixel
SHARE = 0.001  # of all pixels may be other pixels


def pictures(outputs) -> list[np.ndarray]:
    stored = [out["data"]["image/png"] for out in outputs if "image/png" in out.get("data", {})]
    decoded = (Image.open(io.BytesIO(base64.b64decode("".join(png)))) for png in stored)
    return [_seen(np.asarray(image.convert("RGBA"))) for image in decoded]


def _seen(image: np.ndarray) -> np.ndarray:
    """As it looks on black, and how clear it is: the colour of what is clear is nobody's."""
    alpha = image[..., 3:].astype(np.int16)
    return np.concatenate([image[..., :3] * alpha // 255, alpha], axis=-1)


def difference(new: np.ndarray, old: np.ndarray) -> str | None:
    """What separates two pictures, in words, or None where they agree."""
    if new.shape != old.shape:
        sizes = ["{1}x{0}".format(*image.shape) for image in (old, new)]
        return f"the stored picture has {sizes[0]} pixels, the new one {sizes[1]}"
    other = (np.abs(new - old).max(axis=-1) > SHADE).mean()
    text = f"{other:.2%} of the picture's pixels differ (at most {SHARE:.1%})"
    return None if other <= SHARE else text


def pytest_itemcollected(item):
    """nbval waits 5 s for a message, whatever --nbval-cell-timeout says: too short when busy."""
    if isinstance(item, IPyNbCell):
        item.output_timeout = 60


def compare_outputs(self, test, ref, skip_compare=None):
    if not _compare_texts(self, test, ref, skip_compare):
        return False
    new, old = pictures(test), pictures(ref)
    if len(new) != len(old):
        findings = [f"{len(old)} pictures are stored, the run made {len(new)}"]
    elif MEASURED_FIGURE in self.cell.metadata.get("tags", []):
        return True  # listed, with its reason, in exceptions.toml; a hidden cell asserts its data
    else:
        findings = [text for pair in zip(new, old, strict=True) if (text := difference(*pair))]
    self.comparison_traceback.extend(findings)
    return not findings


_compare_texts = IPyNbCell.compare_outputs
IPyNbCell.compare_outputs = compare_outputs
