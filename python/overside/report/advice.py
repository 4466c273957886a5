"""Advice in words: where operations should run, for a terminal and for the report's page."""

from __future__ import annotations

from collections.abc import Sequence

from overside.bench.statistics import RunView
from overside.report import break_even, formatting
from overside.tasks.common import Json

#: Keys of an answer, and their titles.
_BREAK_EVENS = {
    "pays_from": "Faster from which size, one buffer at a time",
    "pays_from_anew": "The same with a context set up for each buffer",
}

VERDICTS = {"yes": "yes", "no": "no", "cannot-tell": "cannot tell"}
#: Words for the confidence in an advice.
CONFIDENCE = {"yes": "high confidence", "no": "no confidence", "cannot-tell": "low confidence"}


def in_words(advice: Json) -> Json:
    """An answer of `overside.advise.answer` in words: `operations`, each of a `title` and `targets`
    (`_target`); the `workload`'s title, its `answer` in a sentence, a line a card in `lines`,
    the `next` measurement and its `plans` (`_plan`); and `citations`, the text and the source of
    each fact."""
    workload = advice.get("workload")
    return {
        "operations": [
            {"title": formatting.clean(one["title"]), "targets": list(map(_target, one["targets"]))}
            for one in advice["operations"]
            if one["targets"]
        ],
        "workload": _workload_title(workload) if workload else "",
        "answer": _workload_answer(workload) if workload else "",
        "lines": _workload_lines(workload) if workload else [],
        "next": _workload_next(workload) if workload else "",
        "plans": list(map(_plan, workload["plans"])) if workload else [],
        "citations": {
            formatting.clean(fact, 120): formatting.clean(text, 600)
            for fact, text in advice["citations"].items()
        },
    }


def of_run(view: RunView) -> tuple[Json | None, str]:
    """The advice for a run by its last query, else with all cards; and why there is none, where
    that is worth saying."""
    from overside import advise  # noqa: PLC0415 (it reads runs, as this does)
    from overside.errors import UserError  # noqa: PLC0415

    try:
        found = in_words(advise.answer(view, advise.query_of(view)))
    except (UserError, ValueError) as error:
        return None, f"There is no advice: {formatting.clean(error, 400)}."
    return (found if found["operations"] or found["plans"] else None), ""


def _name(target: Json) -> str:
    measured = target["provenance"] == "measured"
    return formatting.device(target["name"]) if measured else formatting.card(target["name"])


def _target(target: Json) -> Json:
    """Prepares the advice on one operation with one device for templates.

    `unsupported` is the reason if the device cannot do the operation; otherwise it is empty.
    """
    return {
        "name": _name(target),
        "provenance": target["provenance"],
        "card": formatting.clean(target["card"], 300),
        "unsupported": formatting.clean(target.get("unsupported") or "", 300),
        "rows": list(map(_row, target["ranges"])),
        "sentences": _sentences(target),
    }


def _row(part: Json) -> Json:
    """One range of sizes."""
    is_cpu = part["placement"] == "cpu"
    return {
        "sizes": _sizes(part),
        "where": where(part["placement"], part.get("fraction")),
        "provenance": part["provenance"],
        "throughput": _rate(part["throughput_bytes_per_s"], part.get("device_at_most_bytes_per_s")),
        "gain": "1 times" if is_cpu else _ratio(part["gain"]),
        "saved": "0 %" if is_cpu else _percent(part.get("host_cpu_saved")),
        "c1": _verdict(part["c1"]),
        "c2": _verdict(part["c2"]),
        "chunk": formatting.size(part["chunk_bytes"]),
    }


def _sizes(part: Json) -> str:
    low = formatting.size(part["from_bytes"])
    return (
        f"{low} to {formatting.size(part['below_bytes'])}"
        if "below_bytes" in part
        else f"from {low}"
    )


def where(placement: str, fraction: Json | None = None) -> str:
    """Returns a placement in words."""
    kind, _, percent = placement.partition(":")
    if kind == "split":
        return f"split, {formatting.clean(percent, 8)} % on the device"
    if kind == "adaptive" and fraction:
        return f"adaptive (about {formatting.number(fraction['typ'] * 100, 2)} % on the device)"
    return {"cpu": "CPU", "device": "device", "network": "network"}.get(kind, kind)


def _interval(interval: Json, scale: float = 1.0) -> str:
    low, high = interval["low"] * scale, interval["high"] * scale
    typical = formatting.number(interval["typ"] * scale)
    return typical if low == high else f"{typical} ({formatting.span(low, high)})"


def _rate(answer: Json, at_most: float | None) -> str:
    if "interval" in answer:
        return f"{_interval(answer['interval'], 1e-6)} MB/s"
    if at_most is not None:
        return f"no prediction; the device at most {formatting.number(at_most / 1e6)} MB/s"
    return "no prediction"


def _ratio(comparison: Json) -> str:
    ratio = comparison.get("ratio")
    if ratio is None:
        return "an unknown number of times"
    return (
        f"{formatting.times(ratio['typ'])} times ({formatting.span(ratio['low'], ratio['high'])})"
    )


def _percent(interval: Json | None) -> str:
    if interval is None:
        return "not known"
    low, high = (round(interval[end] * 100) for end in ("low", "high"))
    return f"{low} %" if low == high else f"{low} to {high} %"


def _verdict(comparison: Json) -> str:
    text = VERDICTS[comparison["verdict"]]
    ratio = comparison.get("ratio")
    if ratio is not None:
        return f"{text} ({formatting.span(ratio['low'], ratio['high'])} times)"
    return text


def _sentences(target: Json) -> list[str]:
    out = []
    for key, question in _BREAK_EVENS.items():
        found = target.get(key)
        if found:
            out.append(f"{question}: {break_even.text(found)}{break_even.reason(found)}.")
    keep = target.get("keep_contexts")
    if keep:
        out.append(_contexts(keep))
    completion = target.get("completion")
    if completion:
        confidence = CONFIDENCE[completion["verdict"]]
        mode = {"poll": "polling", "event": "events"}[completion["mode"]]
        out.append(
            f"Completion: {mode} ({confidence}); {formatting.clean(completion['why'], 300)}."
        )
    doubts = dict.fromkeys(
        formatting.clean(name, 120)
        for part in target["ranges"]
        for name in part["c1"].get("dominated_by", ())
    )
    if doubts:
        out.append(f"Largest uncertainties: {'; '.join(doubts)}.")
    reasons = dict.fromkeys(
        formatting.clean(part["c1"]["why"], 400)
        for part in target["ranges"]
        if part["c1"].get("why")
    )
    out += [f"{reason[:1].upper()}{reason[1:]}." for reason in reasons]
    if target["missing"]:
        out.append(f"Not known: {'; '.join(formatting.clean(m, 200) for m in target['missing'])}.")
    return out


def _contexts(keep: Json) -> str:
    ratio = keep.get("ratio")
    if keep["verdict"] == "yes" and ratio:
        times = formatting.span(ratio["low"], ratio["high"])
        slow = f"setting one up for each buffer takes {times} times as long"
        return f"Keep contexts and reuse them: {slow}."
    if keep["verdict"] == "no":
        return "Contexts need not be kept: setting them up costs nothing that was seen."
    why = f" ({formatting.clean(keep['why'], 300)})" if keep.get("why") else ""
    return f"Whether keeping contexts pays cannot be told{why}."


def _workload_title(workload: Json) -> str:
    rate = _interval(workload["rate_bytes_per_s"], 8e-9)
    return f"{formatting.clean(workload['name'], 120)}, {rate} Gb/s"


#: An interval that is wider counts only by its lower end.
_TELLING_MAX = 10.0
#: Words for the verdict on a workload.
_WORTH = {
    "yes": "worth it",
    "cannot-tell": "cannot tell yet",
    "no": "not worth it",
}


def _workload_answer(workload: Json) -> str:
    """Lists the cards that are worth it: cheaper than the CPU alone where prices are given, else
    fewer cores of the host."""
    cards = workload["plans"][1:]
    names = {
        text: [_name(plan) for plan in cards if plan["is_worth_it"] == verdict]
        for verdict, text in _WORTH.items()
    }
    names["not possible"] = [formatting.card(one["name"]) for one in workload["unable"]]
    parts = [f"{text} with {formatting.listing(some)}" for text, some in names.items() if some]
    return f"{_workload_title(workload)}: {'; '.join(parts) or 'no card was asked about'}."


def _workload_lines(workload: Json) -> list[str]:
    """A line for each card, the best first, and one for the CPU alone: how much it takes, and its
    saving."""
    cpu, cards = workload["plans"][0], workload["plans"][1:]
    ranked = sorted(cards, key=lambda plan: list(_WORTH).index(plan["is_worth_it"]))
    lines = [
        f"{_name(plan)} [MODELLED]: {_WORTH[plan['is_worth_it']]}; {_takes(plan)}{_why(plan)}."
        for plan in ranked
    ]
    lines += [
        f"{formatting.card(one['name'])}: not possible; {formatting.clean(one['why'], 300)}."
        for one in workload["unable"]
    ]
    return [*lines, f"The CPU alone: {_takes(cpu)}."]


def _takes(plan: Json) -> str:
    """`1 to 2 cards, 0.027 to 1.2 host cores, 0.059 to 0.20 EUR an hour, carries 45 to 85 Gb/s`."""
    parts = [_whole_cards(plan["whole_cards"])] if plan.get("whole_cards") else []
    parts.append(_cores(plan))
    costs = plan.get("costs")
    if costs and "interval" in costs["per_hour"]:
        least = "at least " if costs["incomplete"] else ""
        currency = formatting.clean(costs["currency"], 12)
        parts.append(f"{least}{_ends(costs['per_hour']['interval'])} {currency} an hour")
    carries, who = plan.get("carries_bytes_per_s"), "carries"
    if plan.get("whole_cards") and plan.get("whole_cards_carry_bytes_per_s"):
        # Of the cards that are named, not of as many as there could be.
        carries, most = plan["whole_cards_carry_bytes_per_s"], plan["whole_cards"][-1]
        who = f"{formatting.plural(most, 'card')} {'carries' if most == 1 else 'carry'}"
    if carries and "interval" in carries:
        enough = {"yes": "", "no": ", too little", "cannot-tell": ", perhaps too little"}
        interval = carries["interval"]
        amount = _ends(interval, 8e-9)
        if interval["high"] > _TELLING_MAX * interval["low"]:
            amount = f"at least {formatting.number(interval['low'] * 8e-9, 2)}"
        parts.append(f"{who} {amount} Gb/s{enough[plan['enough']]}")
    return ", ".join(parts)


def _why(plan: Json) -> str:
    """Behind a verdict without a comparison: the unknown figure, or that the CPU does it all."""
    if "cards" in plan:
        return ""
    if plan["is_worth_it"] == "no":
        return "; no stage is better on it"
    if "interval" not in plan["cores"]:
        return f"; {formatting.clean(plan['cores']['why'], 300)}"
    unknown = [stage["do"] for stage in plan["stages"] if stage.get("is_rate_unknown")]
    return f"; its rate for {formatting.clean(formatting.listing(unknown), 200)} is unknown"


#: Next step where no study has published the rate that would decide.
NONE_PUBLISHED = "none published"


def settled_on_a_card(command: str, name: str) -> str:
    """Next step where rates were published and do not suffice. Most readers own no card."""
    return f"`{command}` on a borrowed {name}"


def _workload_next(workload: Json) -> str:
    """The next measurement to take; empty if nothing is left."""
    cpu, cards = workload["plans"][0], workload["plans"][1:]
    if "interval" not in cpu["cores"]:
        return formatting.clean(cpu["cores"]["remedy"], 300)
    undecided = [plan for plan in cards if plan["is_worth_it"] == "cannot-tell"]
    if not undecided:
        return ""
    if any(stage.get("is_rate_unknown") for plan in undecided for stage in plan["stages"]):
        return NONE_PUBLISHED
    return settled_on_a_card("overside calibrate", _name(undecided[0]))


def _cores(plan: Json) -> str:
    """`2.1 to 3.4 host cores (libdeflate level 1, Silesia data)`."""
    answer = plan["cores"]
    if "interval" not in answer:
        return "an unknown number of host cores"
    on_cores = (stage for stage in plan["stages"] if stage["placement"] != "device")
    libraries = dict.fromkeys(
        formatting.clean(stage["library"], 60) for stage in on_cores if stage.get("library")
    )
    names = f" ({'; '.join(libraries)})" if libraries else ""
    return f"{_ends(answer['interval'])} host cores{names}"


def _ends(interval: Json, scale: float = 1.0) -> str:
    """`2.1 to 3.4`."""
    low, high = (formatting.number(interval[end] * scale, 2) for end in ("low", "high"))
    return low if low == high else f"{low} to {high}"


def _whole_cards(whole: Sequence[int]) -> str:
    low, _, high = whole
    return formatting.plural(high, "card") if low == high else f"{low} to {high} cards"


def _plan(plan: Json) -> Json:
    """A workload with one device: for each stage its operation, place, input rate and cores."""
    stages = []
    for stage in plan["stages"]:
        enters, cores = stage.get("enters_bytes_per_s"), stage.get("cores")
        stages.append(
            (
                formatting.clean(stage["do"], 60),
                where(stage["placement"])
                + (f" ({formatting.clean(stage['library'], 60)})" if stage.get("library") else ""),
                f"{formatting.number(enters['typ'] / 1e6)} MB/s" if enters else "–",
                _interval(cores) if cores and cores["high"] > 0 else "–",
            )
        )
    return {
        "name": "CPU alone" if plan["name"] == "cpu" else f"With {_name(plan)}",
        "provenance": "modelled",
        "card": formatting.clean(plan["card"], 300),
        "stages": stages,
        "sentences": _plan_sentences(plan),
    }


def _plan_sentences(plan: Json) -> list[str]:
    out = [f"Cores of the host: {_answer(plan['cores'])}."]
    if plan["name"] != "cpu" and "cards" not in plan:
        out.insert(
            0,
            "No stage is known to be better on it: some of its figures are unknown."
            if plan["is_worth_it"] == "cannot-tell"
            else "No stage is better on it than on the CPU.",
        )
    whole = plan.get("whole_cards")
    if whole:
        out.append(f"Needs {_whole_cards(whole)}: {_answer(plan['cards'])} of them are busy.")
    carries = plan.get("carries_bytes_per_s")
    if carries:
        enough = {
            "yes": "enough",
            "no": "too little",
            "cannot-tell": "unclear whether it is enough",
        }
        rate = (
            _interval(carries["interval"], 8e-9) + " Gb/s"
            if "interval" in carries
            else "no prediction"
        )
        out.append(f"Capacity: {rate}; {enough[plan['enough']]}.")
    bottleneck = plan["bottleneck"]
    used = bottleneck.get("used")
    text = formatting.clean(bottleneck["what"], 120)
    out.append(f"Bottleneck: {text}" + (f", {_percent(used)} of all." if used else "."))
    fewer = plan.get("fewer_cores")
    if fewer:
        out.append(f"Fewer cores than the CPU alone: {_verdict(fewer)}.")
    costs = plan.get("costs")
    if costs:
        currency = formatting.clean(costs["currency"], 12)
        hour = costs["per_hour"]
        text = (
            f"{_interval(hour['interval'])} {currency} an hour"
            if "interval" in hour
            else _answer(hour)
        )
        if costs["incomplete"]:
            text += (
                f" without {', '.join(formatting.clean(key, 40) for key in costs['incomplete'])}"
            )
        out.append(f"Costs {text}.")
        if costs.get("cheaper"):
            out.append(f"Cheaper than the CPU alone: {_verdict(costs['cheaper'])}.")
    notes = [
        f"{formatting.clean(one['do'], 60)}: {formatting.clean(one['note'], 300)}"
        for one in plan["stages"]
        if one.get("note")
    ]
    out += [f"{note}." for note in notes]
    if plan["missing"]:
        out.append(f"Not known: {'; '.join(formatting.clean(m, 200) for m in plan['missing'])}.")
    return out


def _answer(answer: Json) -> str:
    if "interval" in answer:
        return _interval(answer["interval"])
    why, remedy = (formatting.clean(answer[key], 300) for key in ("why", "remedy"))
    return f"no prediction: {why}; {remedy}"
