"""Search published figures, and compare the model with them."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterator, Sequence

from overside import _core
from overside.commands import Arguments, output, table
from overside.errors import Exit, UserError
from overside.report.formatting import clean
from overside.tasks.common import Json

#: Figures of one fact that a list shows; `show` has them all.
FIGURES_MAX = 6


def main(args: Arguments) -> int:
    """Runs the verb."""
    match args.words:
        case ["show", *ids]:
            return _show(args, ids)
        case ["ask", *ids]:
            return _ask_model(args, ids)
        case ["check", *fields]:
            return _check(args, fields)
    return _search(args)


def _ask(args: Arguments, words: Sequence[str]) -> Json:
    """Searches the collection for facts and orderings that have all `words`."""
    use = None if args.use == "all" else args.use
    try:
        found: Json = json.loads(_core.facts(list(words), args.paper, args.device, use, args.facts))
    except ValueError as error:
        raise _unreadable(error) from None
    return found


def _unreadable(error: ValueError) -> UserError:
    return UserError(clean(error), "docs/measure/facts.md tells the form of a collection")


def _search(args: Arguments) -> int:
    found = _ask(args, args.words)
    facts, orderings = found["facts"], found["orderings"]
    if args.json:
        output.document("facts/1", facts=facts, orderings=orderings)
    elif facts or orderings:
        for fact in facts:
            print(_card(fact, whole=False) + "\n")
        for ordering in orderings:
            print(_ordering(ordering) + "\n")
        print(f"{len(facts)} facts, {len(orderings)} orderings; published figures, none of ours.")
    if facts or orderings:
        return Exit.OK
    raise UserError(
        f"no published fact has all of: {clean(_query_text(args), 300)}",
        "search for fewer words; `overside facts` lists all. What nobody has published can be "
        "measured: overside calibrate",
        Exit.NOTHING_SELECTED,
    )


def _query_text(args: Arguments) -> str:
    given = {"--paper": args.paper, "--device": args.device, "--use": args.use}
    options = [f"{option} {value}" for option, value in given.items() if value is not None]
    return " ".join([*args.words, *options])


def _show(args: Arguments, ids: Sequence[str]) -> int:
    if not ids:
        raise UserError("show needs the name of a fact", "overside facts lists them")
    found = _ask(args, ())
    by_id = {fact["id"]: fact for fact in found["facts"]}
    by_id |= {ordering["id"]: ordering for ordering in found["orderings"]}
    for name in ids:
        if name not in by_id:
            raise _unknown(name, sorted(by_id))
    chosen = [by_id[name] for name in ids]
    cards = (_card(one, whole=True) if "figures" in one else _ordering(one) for one in chosen)
    output.answer(args.json, "facts/1", {"facts": chosen}, lambda: "\n\n".join(cards))
    return Exit.OK


def _ask_model(args: Arguments, ids: Sequence[str]) -> int:
    """Prints what to type to see what the model answers about facts."""
    if not ids:
        raise UserError("ask needs the name of a fact", "overside facts lists them")
    known = _ask(args, ())["ids"]
    answers = []
    for name in ids:
        if name not in known:
            raise _unknown(name, known)
        answers.append(json.loads(_core.facts_ask(name, args.facts)))
    lines = (line for answer in answers for line in _asked(answer))
    output.answer(args.json, "facts-ask/1", {"answers": answers}, lambda: "\n".join(lines))
    return Exit.OK


def _asked(answer: Json) -> Iterator[str]:
    """Yields lines with the commands to type for each figure or relation."""
    for figure in answer.get("figures", ()):
        published = _figure({**figure, "path": (), "value": figure["published"]})
        yield f"{clean(figure['name'])}: {published}"
        yield from _commands(figure["commands"])
        if not figure["commands"]:
            yield _not_asked(figure)
    if "relations" in answer:
        yield f"{clean(answer['name'])}: {clean(answer['statement'])}"
        for relation in answer["relations"]:
            yield f"  {relation['says']}:"
            yield from _commands(relation["commands"])
        if not answer["relations"]:
            yield _not_asked(answer)


def _commands(commands: Sequence[Json]) -> Iterator[str]:
    for one in commands:
        what = f"{clean(one['what'])}: " if one["what"] else ""
        yield f"  {what}{clean(one['figure'])}"
        if one["command"]:
            yield f"    {clean(one['command'], 400)}"


def _not_asked(one: Json) -> str:
    why = one["not_modelled"]
    return f"  not modelled: {clean(why, 400)}" if why else "  nothing is asked about it"


def _unknown(name: str, known: list[str]) -> UserError:
    hint = _core.suggest(name, known)
    remedy = f"did you mean {hint}?" if hint else "overside facts WORD searches for them"
    return UserError(f"there is no fact {clean(name, 120)}", remedy, Exit.NOTHING_SELECTED)


def _card(fact: Json, whole: bool) -> str:
    """A fact as a few lines."""
    figures = fact["figures"]
    shown = figures if whole else figures[:FIGURES_MAX]
    lines = [f"{clean(fact['id'])}  [{fact['purpose']}]"]
    lines.append(f"  {clean(fact['device'])}, {clean(fact['workload'])}: {clean(fact['metric'])}")
    correct = " (corrected)" if fact.get("printed") else ""
    lines += [f"    {_figure(figure)}{correct}" for figure in shown]
    if len(figures) > len(shown):
        lines.append(f"    and {len(figures) - len(shown)} more: overside facts show {fact['id']}")
    lines += [f"    {_figure(figure)} (as printed)" for figure in fact.get("printed", ())]
    if fact["conditions"]:
        lines += _wrapped("conditions", fact["conditions"])
    if fact.get("basis"):
        lines.append(f"  basis: bytes of the {fact['basis']} side")
    if fact.get("flag"):
        lines += _wrapped("beware", fact["flag"])
    if fact.get("note"):
        lines += _wrapped("note", fact["note"])
    if whole:
        lines.append(f"  kind: {fact['kind']}, from the study's {clean(fact['origin'])}")
        lines += _wrapped("used", _used(fact))
        for subject, text in fact.get("notes", ()):
            lines += _wrapped(f"on all such facts ({clean(subject, 60)})", text)
    lines += _wrapped("published", fact["citation"])
    return "\n".join(lines)


def _used(fact: Json) -> str:
    """Returns the purpose of the fact, in words."""
    if fact["doubtful"]:
        return "for orderings only: its number is in doubt"
    return {
        "calibrate": "parameters of the model may rest on it",
        "validate": "held out to test the model; no parameter may use it",
    }.get(fact["purpose"], "it explains others")


def _figure(figure: Json) -> str:
    keys = f"{clean(', '.join(figure['path']))}: " if figure["path"] else ""
    unit = "" if figure["unit"] == "bool" else clean(figure["unit"])
    return f"{keys}{clean(figure['value'])} {unit}".rstrip()


def _wrapped(label: str, text: str) -> list[str]:
    return textwrap.wrap(
        f"{label}: {clean(text)}", 98, initial_indent="  ", subsequent_indent="    "
    )


def _ordering(ordering: Json) -> str:
    lines = [
        f"{clean(ordering['id'])}  [ordering]",
        f"  {clean(ordering['statement'])}",
    ]
    if ordering.get("conditions"):
        lines += _wrapped("conditions", ordering["conditions"])
    where = f"section {ordering['section']} of " if ordering.get("section") else ""
    lines += _wrapped("published", f"{where}{ordering['paper']}")
    return "\n".join(lines)


def _check(args: Arguments, fields: Sequence[str]) -> int:
    if args.use == "context":
        raise UserError("facts of use context are not compared", "--use validate, calibrate or all")
    try:
        check: Json = json.loads(_core.facts_check(args.facts))
    except ValueError as error:
        raise _unreadable(error) from None
    use = args.use or "validate"
    wanted = {"calibrate", "validate"} if use == "all" else {use}
    check["figures"] = [
        figure
        for figure in check["figures"]
        if figure["purpose"] in wanted and _is_selected(args, figure, fields)
    ]
    check["orderings"] = [
        one for one in check["orderings"] if _holds(fields, one["id"], one.get("scenario", ""))
    ]
    if args.json:
        output.document("facts-check/1", **check)
    else:
        _print_check(check, is_built_in=args.facts is None)
    if not check["figures"] and not check["orderings"]:
        raise UserError(
            f"nothing to compare has all of: {clean(_query_text(args), 300)}",
            "overside facts check --use all compares everything",
            Exit.NOTHING_SELECTED,
        )
    return Exit.OK


def _is_selected(args: Arguments, figure: Json, fields: Sequence[str]) -> bool:
    def plain(text: str) -> str:
        return "".join(c for c in text.lower() if c.isalnum())

    of_device = args.device is None or plain(args.device) in plain(figure["device"])
    of_paper = args.paper is None or figure["fact"].split(".")[0] == args.paper
    return of_device and of_paper and _holds(fields, figure["name"], figure.get("scenario", ""))


def _holds(fields: Sequence[str], name: str, scenario: str) -> bool:
    return all(field.lower() in name.lower() or field == scenario for field in fields)


def _print_check(check: Json, *, is_built_in: bool) -> None:
    rows = [
        [
            clean(figure["name"], 48),
            clean(figure["published"], 24),
            clean(figure["unit"], 8),
            *_finding(figure),
        ]
        for figure in check["figures"]
    ]
    if rows:
        head = ["figure", "published", "unit", "modelled", "error", "", "rests on"]
        print(table.text(head, rows) + "\n")
    rows = [
        [one["id"], clean(one["statement"], 60), _ordering_finding(one)]
        for one in check["orderings"]
    ]
    if rows:
        print(table.text(["ordering", "says", "the model"], rows) + "\n")
    # Formulas were chosen with these in sight; with another collection's they were not.
    judging = "facts that judge the model" + (" (a development score)" if is_built_in else "")
    for title, key in (
        (judging, "validation"),
        ("facts that it rests on", "calibration"),
    ):
        print(_scores(title, check[key]) + "\n")
    orderings = check["ordering_scores"]
    print(
        f"orderings: {orderings['orderings']}, asked about {orderings['claimed']}, "
        f"of these hold {orderings['holding']}, likely {orderings['likely']}"
    )


def _finding(figure: Json) -> list[str]:
    match figure["finding"]:
        case "predicted":
            low, typ, high = (f"{figure['modelled'][end]:.4g}" for end in ("low", "typ", "high"))
            inside = "inside" if figure["inside"] else "OUTSIDE"
            rests = "itself" if figure["fitted"] else figure["closeness"]
            return [f"{typ} ({low} to {high})", f"{100 * figure['error']:+.1f} %", inside, rests]
        case "no-prediction":
            return [f"no prediction: {clean(figure['why'], 80)}", "", "", ""]
        case "cannot-tell":
            low, high = (f"{figure['modelled'][end]:.4g}" for end in ("low", "high"))
            return [f"cannot tell ({low} to {high})", "", "", ""]
        case "doubtful":
            return ["in doubt, for orderings only", "", "", ""]
        case "words":
            return ["qualitative", "", "", ""]
    return ["nothing is asked about it", "", "", ""]


def _ordering_finding(one: Json) -> str:
    if one["finding"] == "claimed":
        verdict = "FAILS" if one["verdict"] == "fails" else one["verdict"]
        return f"{verdict} ({one['scenario']})"
    return f"not modelled: {clean(one['reason'], 80)}"


#: Figures by what it takes to meet them.
_GROUPS = {
    "itself": "rest on themselves",
    "restated": "said by another fact",
    "predicted": "predicted",
    "queries": "predicted, TPC-H",
}


def _scores(title: str, scores: Json) -> str:
    def share(value: float | None) -> str:
        return "-" if value is None else f"{100 * value:.1f} %"

    rows = [
        [
            _GROUPS[name],
            str(one["figures"]),
            share(one["median_error"]),
            share(one["median_error_of_middle"]),
            share(one["inside"]),
            f"x{one['width']:.2f}",
        ]
        for name, one in scores["groups"].items()
    ]
    head = ["figures", "number", "median error", "of ranges' middle", "inside", "mean width"]
    lines = [
        f"{title}: {scores['facts']} with {scores['figures']} figures, "
        f"{share(scores['without_prediction'])} without a prediction, "
        f"{scores['cannot_tell']} figures where it cannot tell"
    ]
    if scores["width"] is not None:
        lines.append(
            f"a fact counts once: median error {share(scores['median_error'])}, "
            f"{share(scores['inside'])} inside, mean width x{scores['width']:.2f}"
        )
    if rows:
        lines.append(table.text(head, rows))
    return "\n".join(lines)
