"""The verdict of a run: where operations should run, computed once and quoted by every format.

1. The model compares this host's cores with each device (`overside.advise.answer`), and once more
   with one core in their place.
2. For each operation and device the comparison becomes a decision, or a reason why there is none
   yet: the machine was busy, or the interval reaches both sides of 1. Where it is above 1 but wider
   than `WIDEST`, the verdict has the direction and calls the amount uncertain (`decision`).
3. The verdicts become a sentence and a picture, for those who read no further (`picture`).
4. Other measurements (networks, links, memory, hashes, plug-ins) answer their own questions
   (`answers`).
"""

from __future__ import annotations

from dataclasses import dataclass

from overside.advise import Query
from overside.bench.statistics import RunView
from overside.report import formatting
from overside.tasks.common import LOCAL, Json
from overside.verdict import answers, decision, machine, picture
from overside.verdict.answers import WIDEST, Answer
from overside.verdict.decision import Ratio, Verdict

__all__ = ["WIDEST", "Answer", "Ratio", "RunVerdict", "Verdict", "of_published", "of_run"]


@dataclass(frozen=True)
class RunVerdict:
    """Verdict on a run."""

    #: One sentence for those who read no further.
    headline: str
    #: Reason why no figure of the run is a headline; empty on a quiet machine.
    caution: str
    #: A verdict for each operation and device. Devices that were measured come first; where there
    #: are any, modelled verdicts on other cards are in `folded`.
    verdicts: tuple[Verdict, ...]
    #: Verdicts on cards that were not measured, if others were.
    folded: tuple[Verdict, ...]
    #: `BlueField-3 cannot do: Compress to DEFLATE.`, one a card, where none was measured.
    unable: tuple[str, ...]
    #: Answers for tests without a verdict on a device: networks, links, memory, hashes, stores,
    #: plug-ins.
    answers: tuple[Answer, ...]

    @property
    def picture(self) -> picture.Picture | None:
        """The intervals of the verdicts on one axis; `None` without any."""
        return picture.of(self.verdicts)

    @property
    def other_answers(self) -> tuple[Answer, ...]:
        """The answers without the one that is the headline."""
        return tuple(one for one in self.answers if one.line != self.headline)

    @property
    def lines(self) -> tuple[str, ...]:
        """The whole verdict as plain text: the headline, then one line each."""
        return (
            self.headline,
            *(one.line for one in self.verdicts),
            *self.unable,
            *(one.line for one in self.other_answers),
        )

    def __str__(self) -> str:
        return "\n".join(self.lines)

    def _repr_html_(self) -> str:
        """Returns the verdict as HTML for a notebook."""
        items = "".join(f"<li>{formatting.html(line)}</li>" for line in self.lines[1:])
        return f"<p><strong>{formatting.html(self.headline)}</strong></p><ul>{items}</ul>"

    def json(self) -> Json:
        """For programs."""
        return {
            "schema": "verdict/1",
            "headline": self.headline,
            "caution": self.caution or None,
            "verdicts": [one.json() for one in self.verdicts],
            "folded": [one.json() for one in self.folded],
            "unable": list(self.unable),
            "answers": [one.json() for one in self.answers],
        }


def of_run(view: RunView, query: Query | None = None, advice: Json | None = None) -> RunVerdict:
    """The verdict of a run. `query` names the cards (those of the last query, else all); `advice`
    is the result of `overside.advise.answer`, if there is one already.

    Profiles that cannot be read leave the measured devices and the answers.
    """
    if view.is_merged:
        headline = (
            "Several machines: the report of each machine's own run has its verdict "
            f"(overside report {view.path}/runs/NAME)."
        )
        return RunVerdict(headline, "", (), (), (), tuple(answers.of_run(view)))
    others = list(dict.fromkeys(test.node for test in view.tests if test.node != LOCAL))
    if others:
        # What a host decides rests on its own figures.
        view = view.here()
    if others and not view.tests:
        headline = f"Measured on {', '.join(others)}: the table by node has the figures."
        return RunVerdict(headline, "", (), (), (), ())
    noise = machine.noise(view)
    found, unable, problem = decision.of_run(view, noise, query, advice)
    measured = [one for one in found if one.is_measured]
    shown, folded = (measured, [o for o in found if not o.is_measured]) if measured else (found, [])
    own = list(answers.of_run(view, is_beside=bool(found)))
    return RunVerdict(
        headline=_headline(view, shown, own, noise, problem),
        caution=noise,
        verdicts=tuple(shown),
        folded=tuple(folded),
        unable=() if measured else tuple(unable),
        answers=tuple(own),
    )


def of_published(query: Query, advice: Json) -> RunVerdict:
    """The verdict for this host by the rates of published hosts: nothing was measured here."""
    found, unable, problem = decision.of_run(None, "", query, advice)
    headline = problem or (
        picture.sentence(found) if found else "Cannot tell: no card does any of it."
    )
    return RunVerdict(headline, "", tuple(found), (), tuple(unable), ())


def _headline(
    view: RunView, verdicts: list[Verdict], own: list[Answer], noise: str, problem: str
) -> str:
    if noise:
        return f"No headline: {noise}. Figures below are unreliable; run again on a quiet machine."
    if problem:
        return problem
    if not verdicts:
        return _without_devices(view, own)
    return picture.sentence(verdicts)


def _without_devices(view: RunView, own: list[Answer]) -> str:
    if own and own[0].is_wide:
        return (
            f"No headline: {decision.WIDE}. More rounds or a quieter machine narrow the figures "
            "below."
        )
    if own:
        return own[0].line
    kinds = {test.provenance for test in view.tests if test.status in ("ok", "invalid")}
    if kinds == {"emulated"}:
        return (
            "Cannot tell yet: only emulated devices ran, which shows behavior, not speed. Measure "
            "this machine's cores as well: add \"cpu\" to the box's devices."
        )
    return "Cannot tell: no test was measured, passed and verified."
