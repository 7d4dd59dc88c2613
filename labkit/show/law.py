"""`show.law` and `show.ladder`: what was measured, against what a law or a peer says."""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from statistics import median

from labkit.cuda.driver import Driver
from labkit.cuda.select import current_driver
from labkit.widgets.law.axis import Axis
from labkit.widgets.law.ladder_picture import LadderPicture
from labkit.widgets.law.law_picture import LawPicture, Line, Point

Measured = float | Sequence[float]
Law = float | Mapping[float, float] | Callable[[float], float]
SECONDS = re.compile(
    r"\b(n|µ|u|m)?s\b|\bseconds?\b|\bminutes?\b|\btime\b|\bfps\b|\btimes as fast\b", re.I
)


def law(
    measured: Mapping[str, Mapping[float, Measured]],
    laws: Mapping[str, Law],
    x: str = "",
    y: str = "",
    *,
    log: str = "",
    clock: str | Driver = "",
    title: str = "",
) -> LawPicture:
    """Points where something was measured, and the curves of what should be measured there.

    A roofline is the law `lambda i: min(bandwidth * i, peak)` with `log="xy"`.

    measured  name of a series -> place -> its value, or the values of several turns: the middle
              one is drawn, with a line from the smallest to the largest
    laws      name -> a function of the place, what was worked out place by place, or a bound that
              is the same everywhere
    x, y      what is counted along and upwards, with its unit
    log       "x", "y" or "xy": logarithmic axes
    clock     whose seconds these are, where `y` counts seconds: "cpu", a driver, "a model"

    Raises   ValueError   nothing was measured, a number is not finite, or 0 and less stand on a
                          logarithmic axis; seconds without a clock, or by the emulator's clock
    """
    _check_clock(y, clock)
    points = {name: _points(series) for name, series in measured.items()}
    if not any(points.values()):
        raise ValueError("a law without a measured point is only a formula")
    if set(log) - set("xy"):
        raise ValueError(f'log is {log!r}; it may be "x", "y" or "xy"')
    places = [point.x for series in points.values() for point in series]
    lows = [("x", x) for x in places]
    lows += [("y", point.low) for series in points.values() for point in series]
    for axis, number in lows:
        if axis in log and number <= 0:
            raise ValueError(f"{number} has no place on a logarithmic axis {axis}")
    between = Axis(places, "x" in log).sampled(min(places), max(places))
    lines = {
        name: _line(one, sorted({*places}), sorted({*places, *between}), "y" in log)
        for name, one in laws.items()
    }
    return LawPicture(points, lines, x, y, log, _with_clock(title, clock))


def ladder(
    measured: Mapping[str, Measured],
    peer: str,
    unit: str = "",
    *,
    clock: str | Driver = "",
    title: str = "",
) -> LadderPicture:
    """Each rung in percent of a named peer; turns are divided by the peer's of the same turn.

    measured  name of a rung -> its value, or the values of several turns
    peer      the rung that is 100 %
    unit      what the values count
    clock     whose seconds these are, where the unit counts seconds

    Raises   KeyError     the peer is no rung
             ValueError   as `law`; the peer is 0; two rungs have different numbers of turns
    """
    _check_clock(unit, clock)
    turns = {name: _turns(values) for name, values in measured.items()}
    base = turns[peer]
    if not all(base):
        raise ValueError(f"nothing is a percentage of {peer}: it is 0")
    counts = {len(values) for values in turns.values() if len(values) > 1}
    if len(counts) > 1:
        raise ValueError(f"rungs have {sorted(counts)} turns: a turn is one call of each")
    shares = {}
    for rung, (name, values) in enumerate(turns.items()):
        n = max(len(values), len(base))
        pairs = zip(values * (n // len(values)), base * (n // len(base)), strict=True)
        shares[name] = _point(rung, [100 * value / one for value, one in pairs])
    return LadderPicture(shares, peer, unit, _with_clock(title, clock))


def _check_clock(unit: str, clock: str | Driver) -> None:
    """Pass unless this counts seconds, or something by the second, of nobody or of the emulator."""
    if not clock and SECONDS.search(unit):
        raise ValueError(f"{unit!r} counts seconds: say whose, clock=...")
    if _clock_name(clock) == "emulator":
        raise ValueError(
            "the emulator's seconds are those of this machine's processors, not of a GPU: "
            "draw what it counts"
        )


def _clock_name(clock: str | Driver) -> str:
    """The driver's name where a device is meant, else what was said."""
    if clock in ("cuda", "lab"):
        return current_driver().name
    return clock if isinstance(clock, str) else clock.name


def _with_clock(title: str, clock: str | Driver) -> str:
    name = _clock_name(clock)
    return f"{title} (clock: {name})".strip() if name else title


def _turns(values: Measured) -> list[float]:
    found = [float(values)] if isinstance(values, int | float) else [*map(float, values)]
    if not found or not all(map(math.isfinite, found)):
        raise ValueError(f"measured values have to be finite numbers, not {values!r}")
    return found


def _point(x: float, turns: Sequence[float]) -> Point:
    return Point(x, median(turns), min(turns), max(turns), len(turns))


def _points(series: Mapping[float, Measured]) -> list[Point]:
    return [_point(float(x), _turns(values)) for x, values in sorted(series.items())]


def _line(one: Law, places: Sequence[float], between: Sequence[float], log: bool) -> Line:
    """The law where points are, and its curve; where it says nothing finite, there is none."""
    if isinstance(one, Mapping):
        found = {float(x): float(y) for x, y in sorted(one.items())}
    else:
        found = {x: float(one(x) if callable(one) else one) for x in between}
    drawn = {x: y for x, y in found.items() if math.isfinite(y) and (y > 0 or not log)}
    return Line({x: drawn[x] for x in places if x in drawn}, [*drawn.items()])
