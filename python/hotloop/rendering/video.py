"""Videos of pictures: mp4 by PyAV, gif by Pillow, both of the extra `video`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Final

from hotloop.errors import RenderError
from hotloop.files import output_file

if TYPE_CHECKING:
    from pathlib import Path

    import numpy as np
    from numpy.typing import NDArray

KINDS: Final = (".mp4", ".gif")
# Seconds for which the last picture stays.
_LAST: Final = 1.0
_COLOURS: Final = 64


def check_video(path: Path) -> None:
    """Check that the video can be written, before anything is played."""
    if path.suffix.lower() not in KINDS:
        raise RenderError(f"the video {path} must end in {' or '.join(KINDS)}")
    if not path.absolute().parent.is_dir():
        raise RenderError(f"the video {path} cannot be written: there is no folder {path.absolute().parent}")
    _writer(path)


def write_video(path: Path, pictures: Iterable[NDArray[np.uint8]], pace: float) -> int:
    """Write images of one size as a video at this rate; return their number. A failure leaves no file behind."""
    shown = _Shown(pictures, round(_LAST * pace))
    with output_file(path) as part:
        _writer(path)(part, iter(shown), pace)
    return shown.count


class _Shown:
    """Images with the last one repeated, and their number."""

    def __init__(self, pictures: Iterable[NDArray[np.uint8]], hold: int) -> None:
        self._pictures = pictures
        self._hold = hold
        self.count = 0

    def __iter__(self) -> Iterator[NDArray[np.uint8]]:
        picture, size = None, None
        for picture in self._pictures:
            self.count += 1
            size = size or picture.shape
            if picture.shape != size:
                raise RenderError(
                    f"picture {self.count} is {picture.shape[1]}x{picture.shape[0]}, those before were "
                    f"{size[1]}x{size[0]}: a video has pictures of one size"
                )
            yield picture
        for _ in range(self._hold if picture is not None else 0):
            assert picture is not None
            yield picture


def _writer(path: Path) -> Callable[[Path, Iterator[NDArray[np.uint8]], float], None]:
    """Return the writer for this kind of file; raises if its package is missing."""
    needed = "PIL" if path.suffix.lower() == ".gif" else "av"
    try:
        __import__(needed)
    except ModuleNotFoundError:
        raise RenderError(f"{path.suffix} videos need {needed}: pip install 'hotloop[video]'") from None
    return _write_gif if needed == "PIL" else _write_mp4


def _write_mp4(path: Path, pictures: Iterator[NDArray[np.uint8]], pace: float) -> None:
    import av

    with av.open(str(path), "w", options={"movflags": "faststart"}) as file:
        stream: Any = None
        for picture in pictures:
            if stream is None:
                # Without B frames and at a constant quality: small for drawings, and read by every browser.
                rate = Fraction(pace).limit_denominator(1000)
                stream = file.add_stream("libx264", rate=rate, options={"crf": "20", "preset": "veryfast"})
                # The format has no odd sizes.
                stream.height, stream.width = (side + side % 2 for side in picture.shape[:2])
                stream.pix_fmt = "yuv420p"
            file.mux(stream.encode(av.VideoFrame.from_ndarray(picture, format="rgb24")))
        file.mux(stream.encode())


def _write_gif(path: Path, pictures: Iterator[NDArray[np.uint8]], pace: float) -> None:
    from PIL import Image

    def few_colours(picture: NDArray[np.uint8]) -> Image.Image:
        return Image.fromarray(picture).quantize(_COLOURS, dither=Image.Dither.NONE)

    first = few_colours(next(pictures))
    # Times in a gif are hundredths of a second, and viewers slow down what is faster than two of them.
    duration = max(20, round(100 / pace) * 10)
    with path.open("wb") as file:
        first.save(file, "GIF", save_all=True, append_images=map(few_colours, pictures), duration=duration, loop=0)
