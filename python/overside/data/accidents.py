"""Descriptions of road accidents, one a line, that answer the four published queries.

The queries, and the share of the lines that each is meant to find:

    q1  At (.+)Exit (.+)            4 %
    q2  (.+) on (.+) at Exit (.+)   9 %
    q3  on (.+) at (.+)            42 %   (all of q2's among them)
    q4  Ramp to (.+)                5 %

Half of the lines answer none. The wording follows reports of traffic services; the places and roads
are invented combinations.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from overside.data import lines
from overside.data.draw import Draw

_WHAT = [
    "Accident",
    "Right lane blocked due to accident",
    "Left lane blocked due to accident",
    "Two lanes blocked due to accident",
    "Right hand shoulder blocked due to accident",
    "Lane blocked and queueing traffic due to crash",
    "Slow traffic due to accident",
    "Serious accident",
    "Multi-vehicle accident",
    "Road closed due to accident",
    "Entry ramp restricted due to accident",
    "Overturned truck",
]
_DIRECTIONS = ["Northbound", "Southbound", "Eastbound", "Westbound"]
_FIRST = [
    "Main", "Oak", "Maple", "Cedar", "Washington", "Lake", "Hill", "Park", "River", "Mill",
    "Church", "Lincoln", "Spring", "Jackson", "Airport", "Union", "Highland", "Franklin",
    "Jefferson", "College", "Mission", "Harbor", "Valley", "Canyon", "Prairie", "Sunset",
]  # fmt: skip
_SECOND = ["St", "Ave", "Rd", "Blvd", "Dr", "Ln", "Pkwy", "Way"]
_TOWNS = [
    "Springfield", "Fairview", "Greenville", "Bristol", "Clinton", "Salem", "Georgetown",
    "Madison", "Arlington", "Ashland", "Dover", "Oxford", "Milford", "Newport", "Riverside",
]  # fmt: skip
_AFTER = [
    "",
    "",
    "",
    " Expect delays.",
    " Expect long delays.",
    " Use alternate routes.",
    " Emergency services are there.",
    " Traffic is backed up for {} miles.",
]


def write(directory: Path, seed: int) -> None:
    """Writes one file."""
    lines.write(directory / "accidents.txt", _lines(Draw(seed)))


def _lines(draw: Draw) -> Iterator[str]:
    while True:
        yield _description(draw) + draw.pick(_AFTER).format(1 + draw.below(12))


def _description(draw: Draw) -> str:
    kind, what, road = draw.share(), draw.favourite(_WHAT), _highway(draw)
    # Each kind answers the queries named beside it and no other.
    if kind < 0.04:  # q1
        return f"At {road.split()[0]}/Exit {_exit(draw)} - {what}."
    if kind < 0.13:  # q2, q3
        return f"{what} on {road} at Exit {_exit(draw)} {_street(draw)}."
    if kind < 0.46:  # q3
        place = road if draw.share() < 0.5 else _street(draw)
        return f"{what} on {place} at {_street(draw)}."
    if kind < 0.51:  # q4
        return f"Ramp to {road} - {what}."
    if kind < 0.70:
        return f"{road}: {what.lower()} between {_street(draw)} and {_street(draw)}."
    if kind < 0.85:
        return f"{what} near {_street(draw)}, {draw.favourite(_TOWNS)}."
    return f"Incident in {draw.favourite(_TOWNS)} near {_street(draw)}. Drive with caution."


def _highway(draw: Draw) -> str:
    kind = draw.pick(["I", "I", "US", "CA", "TX", "OH", "SC"])
    return f"{kind}-{1 + draw.below(99)} {draw.pick(_DIRECTIONS)}"


def _street(draw: Draw) -> str:
    return f"{draw.favourite(_FIRST)} {draw.favourite(_SECOND)}"


def _exit(draw: Draw) -> str:
    return f"{1 + draw.below(300)}{draw.pick(['', '', '', 'A', 'B'])}"
