"""Frames out of a video file and into one, through PyAV (FFmpeg's libraries).

Only codecs without a memory are written: each packet is one whole frame, so a finished packet is a
finished frame. FFV1 loses nothing; Motion JPEG is smaller.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any, Literal

from labkit.pipeline.scene import Frame

try:
    import av
    import av.logging
except ImportError:  # the extra `video`
    av = None  # type: ignore[assignment, unused-ignore]  # where it is installed

Codec = Literal["ffv1", "mjpeg"]
PIXELS = {"ffv1": "bgr0", "mjpeg": "yuvj444p"}
CONTAINERS = {".mkv": "matroska", ".mp4": "mp4", ".avi": "avi"}


class VideoError(Exception):
    """A video cannot be read or written; the message says which frame, and what to do."""


@dataclass(frozen=True)
class Film:
    """What a file says about its pictures.

    count  frames, or None where the file does not say
    """

    width: int
    height: int
    rate: Fraction
    count: int | None


def film_of(path: str | Path) -> Film:
    """The first video stream of a file.

    Raises   VideoError   it cannot be opened, or has no pictures
    """
    with _opened(path) as container:
        stream = container.streams.video[0]
        rate = stream.average_rate or Fraction(25)
        count = stream.frames
        if not count and container.duration:  # in microseconds
            count = round(container.duration * rate / 1_000_000)
        return Film(stream.width, stream.height, Fraction(rate), count or None)


def read_frames(
    path: str | Path, on_damaged: Literal["stop", "repeat"] = "stop"
) -> Iterator[Frame]:
    """Every frame of a file, in order.

    FFmpeg hides most damage: it fills the hole and writes to its log. Here such a frame counts as
    damaged. The log level is FFmpeg's own for the whole process, and set back behind each packet.

    on_damaged  "repeat" gives the frame before it once more

    Raises   VideoError   a frame is damaged or of another size, no frame is whole, or the file
                          cannot be read
    """
    with _opened(path) as container:
        stream = container.streams.video[0]
        stream.codec_context.thread_count = 1  # the log then belongs to the packet at hand
        size, last, number = (stream.height, stream.width), None, 0
        for packet in container.demux(stream):
            frames, damage = _decoded(packet)
            if damage and not frames:
                frames = [None]  # a packet that gave nothing held one frame
            for frame in frames:
                if damage:
                    if on_damaged == "stop" or last is None:
                        raise VideoError(f"frame {number} of {path} is damaged: {damage}")
                    picture = last
                elif (frame.height, frame.width) != size:
                    raise VideoError(
                        f"frame {number} of {path} has {frame.width} x {frame.height} pixels, "
                        f"the film {size[1]} x {size[0]}"
                    )
                else:
                    picture = frame.to_ndarray(format="rgb24")
                yield picture
                last, number = picture, number + 1
        if not number:
            raise VideoError(f"{path} holds no whole frame")


def _decoded(packet: Any) -> tuple[list[Any], str]:
    """The frames of a packet, and what was wrong with it."""
    level = av.logging.get_level()
    av.logging.set_level(av.logging.ERROR)
    try:
        with av.logging.Capture() as log:
            frames = packet.decode()
    except av.error.FFmpegError as error:
        return [], str(error)
    finally:
        av.logging.set_level(level)
    damage = log[0][2].strip() if log else ""
    if any(frame.is_corrupt for frame in frames):
        damage = damage or "its packet is incomplete"
    return frames, damage


class Encoder:
    """Frames to packets, one each; two encoders of the same film make the same packets."""

    def __init__(self, codec: Codec, film: Film) -> None:
        self._context = _encoding(av.CodecContext.create(codec, "w"), codec, film)
        self._context.time_base = 1 / film.rate
        self._context.open()

    def encode(self, frame: Frame) -> bytes:
        """The packet of one frame."""
        picture = av.VideoFrame.from_ndarray(frame, format="rgb24")
        (packet,) = self._context.encode(picture.reformat(format=self._context.pix_fmt))
        return bytes(packet)


def _encoding(context: Any, codec: Codec, film: Film) -> Any:
    context.width, context.height, context.pix_fmt = film.width, film.height, PIXELS[codec]
    context.gop_size, context.thread_count = 1, 1
    context.options = {"level": "3", "slicecrc": "1"} if codec == "ffv1" else {"qmin": "2"}
    return context


def write_film(path: str | Path, codec: Codec, film: Film, packets: Iterable[bytes]) -> None:
    """A video file of these packets, at a constant rate; the same packets make the same bytes.

    Raises   VideoError   the name's ending stands for no container
             OSError      it cannot be written
    """
    form = container_of(path)
    options = {"fflags": "bitexact"}  # without it, Matroska writes a random number
    with av.open(str(path), "w", format=form, options=options) as container:
        stream = container.add_stream(codec, rate=film.rate)
        _encoding(stream.codec_context, codec, film)
        for index, content in enumerate(packets):
            packet = av.Packet(content)
            packet.stream, packet.time_base = stream, 1 / film.rate
            packet.pts = packet.dts = index
            packet.is_keyframe = True
            container.mux(packet)


def container_of(path: str | Path) -> str:
    """FFmpeg's name of the container that a file name stands for.

    Raises   VideoError   there is none
    """
    # a file under work is called film.mkv.new
    endings = [ending.lower() for ending in Path(path).suffixes]
    known = [ending for ending in endings if ending in CONTAINERS]
    if not known:
        raise VideoError(f"{path} has to end in {', '.join(CONTAINERS)}")
    return CONTAINERS[known[-1]]


def require_av() -> None:
    """PyAV is installed.

    Raises   VideoError   it is not
    """
    if av is None:
        raise VideoError("reading video needs PyAV: python3 -m pip install -e '.[video]'")


def _opened(path: str | Path) -> Any:
    require_av()
    try:
        container = av.open(str(path))
    except (av.error.FFmpegError, OSError) as error:
        text = getattr(error, "strerror", None) or str(error)
        raise VideoError(f"{path} cannot be opened: {text}") from None
    if not container.streams.video:
        container.close()
        raise VideoError(f"{path} has no pictures")
    return container
