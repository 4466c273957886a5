"""Figures of the studies that Overside follows, and the boxes that measure the same.

`boxes/figures/figures.toml` has an entry for each figure and table of five studies. An entry names
a box, in `boxes/figures` or among the ready-made ones, or gives the reason why there is none.
docs/measure/studies.md describes the form.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from overside.errors import Exit, UserError, unknown
from overside.tasks.common import Json

#: Prefix of a figure's name where a box is expected: `overside run figure:S1.7`.
PREFIX = "figure:"
#: Directory of the registry and of the boxes that were written for a figure, below `boxes`.
DIRECTORY = "figures"


@dataclass(frozen=True)
class Series:
    """Published values of a figure, and the tests whose figures stand beside them."""

    #: The metric of our tests.
    metric: str
    #: Parameters of our tests, and `task`. A list: any of its values; an empty text: not given.
    test: Json
    #: The facts, and further parameters of the tests beside each.
    facts: Mapping[str, Json]
    #: The parameter that the last key of each published value gives; empty if none does.
    along: str = ""
    #: Beginnings of the keys of the published values to draw, as in `GET, req`; all without any.
    keys: Sequence[str] = ()
    #: Parameters in which the other side of a ratio differs, and its `metric` if that differs too.
    against: Json = field(default_factory=dict)
    #: The metrics of the same test that the ratio is over, added up.
    over: Sequence[str] = ()
    #: Difference of our figures from others beside the same values; empty without others.
    label: str = ""
    #: Form in which the study prints a ratio: `times`, `percent`, `percent more` or `percent less`.
    form: str = ""
    #: `True` if our figure is the mean over all such tests.
    mean: bool = False

    @property
    def is_ratio(self) -> bool:
        """`True` if two figures of a run are compared with a published ratio."""
        return bool(self.against or self.over)


@dataclass(frozen=True)
class Figure:
    """A figure or table of a study."""

    #: `S1.7`, `S4.T1`.
    id: str
    #: `Fig. 7`, `Table I`.
    label: str
    #: Content in a phrase; empty if no published fact states it.
    caption: str = ""
    #: Conditions of the study.
    conditions: str = ""
    #: Differences of our conditions.
    differs: str = ""
    #: The box by its name; empty if there is none.
    box: str = ""
    #: Reason why there is no box.
    reason: str = ""
    #: Boxes that measure what is near to it.
    see: Sequence[str] = ()
    #: Requirements of the study's conditions: a card, a network card, a package, data.
    needs: Sequence[str] = ()
    #: `True` if a machine without card and network card runs at least a part of the box.
    plain: bool = True
    #: Names of its published facts, in which `*` stands for anything.
    facts: Sequence[str] = ()
    series: Sequence[Series] = ()

    @property
    def name(self) -> str:
        """Name that `run`, `plan` and `validate` take."""
        return f"{PREFIX}{self.id}"


def _directory() -> Path:
    """Directory of this installation's registry: in the package, or beside it in the tree."""
    package = Path(__file__).resolve().parents[1]
    packaged = package / "boxes" / DIRECTORY
    return packaged if packaged.is_dir() else package.parents[1] / "boxes" / DIRECTORY


@cache
def figures() -> Mapping[str, Figure]:
    """All figures by their names, in the order of the studies."""
    form = tomllib.loads((_directory() / "figures.toml").read_text("utf-8"))
    return {name: _figure(name, entry) for name, entry in form["figure"].items()}


def _figure(name: str, entry: Json) -> Figure:
    number = name.partition(".")[2]
    label = f"Table {number[1:]}" if number.startswith("T") else f"Fig. {number}"
    series = [Series(**one) for one in entry.get("series", ())]
    return Figure(**{"id": name, "label": label, **entry, "series": series})


def chosen(name: str) -> list[Figure]:
    """The figure of that name, or all figures of a study: `S1.7`, `figure:S1.7`, `S1`.

    Raises `UserError` if there is none.
    """
    wanted = name.lower().removeprefix(PREFIX)
    names = [name for name in figures() if wanted in (name.lower(), name.lower().partition(".")[0])]
    if not names:
        raise unknown("figure", name, list(figures()))
    return [figures()[one] for one in names]


def box_of(name: str) -> str:
    """The name or path of the box of `figure:S1.7`, as `box.find` takes it.

    Raises `UserError` if there is no such figure, or it has no box.
    """
    figure, *more = chosen(name)
    if more:
        known = ", ".join(one.name for one in (figure, *more) if one.box)
        raise UserError(f"{name} is a whole study", f"name one of its figures: {known}")
    if not figure.box:
        near = f"near to it: {', '.join(figure.see)}" if figure.see else ""
        raise UserError(
            f"{figure.name} has no box: {figure.reason}",
            near or "`overside studies` lists the figures that have one",
            Exit.ABSENT,
        )
    own = _directory() / f"{figure.box}.json"
    return str(own) if own.is_file() else figure.box


def counts(some: Sequence[Figure]) -> dict[str, int]:
    """Number of figures, of those with a box, and of those that a plain machine runs."""
    with_box = [one for one in some if one.box]
    plain = sum(one.plain for one in with_box)
    return {"figures": len(some), "with_box": len(with_box), "plain": plain}
