"""Prints what the verbs in Python take, as JSON: `python -m overside.commands.definitions`.

The native command makes completions and manual pages of it, together with its own definitions. So
`overside.commands.arguments` is the only place where an option of these verbs stands.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping
from typing import Any

from overside import log
from overside.commands import arguments

#: How many values an argument takes, by what argparse calls it.
_VALUES: Mapping[object, str] = {None: "one", "?": "optional", "*": "any", "+": "some"}


def definitions() -> dict[str, Any]:
    """All verbs: their names, what they do in a line, their arguments and their own verbs."""
    verbs = []
    for name, (text, add) in arguments.VERBS.items():
        parser = arguments.Parser(prog=f"overside {name}", description=f"{text}.")
        add(parser)
        parser.show_examples(name)
        log.arguments(parser)
        verbs.append(_verb(name, text, parser))
    return {"schema": "verbs/1", "verbs": verbs}


def _verb(name: str, about: str, parser: argparse.ArgumentParser) -> dict[str, Any]:
    verbs = []
    taken = []
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            texts = {choice.dest: choice.help or "" for choice in action._choices_actions}
            verbs += [_verb(sub, texts.get(sub, ""), one) for sub, one in action.choices.items()]
        elif not isinstance(action, argparse._HelpAction):
            taken.append(_argument(parser, action))
    return {
        "name": name,
        "about": about,
        "description": parser.description,
        "examples": parser.epilog,
        "arguments": taken,
        "verbs": verbs,
    }


def _argument(parser: argparse.ArgumentParser, action: argparse.Action) -> dict[str, Any]:
    metavar = action.metavar if isinstance(action.metavar, str) else action.dest
    takes_none = action.nargs == 0
    return {
        "name": action.dest,
        "options": list(action.option_strings),
        "value": None if takes_none else metavar,
        "values": "none" if takes_none else _VALUES[action.nargs],
        "choices": None if action.choices is None else [str(one) for one in action.choices],
        "help": parser._get_formatter()._expand_help(action) if action.help else "",
        "heading": _heading(parser, action),
    }


def _heading(parser: argparse.ArgumentParser, action: argparse.Action) -> str | None:
    """The title of the group that it stands in, unless that is argparse's own."""
    for group in parser._action_groups[2:]:
        if action in group._group_actions:
            return (group.title or "").capitalize()
    return None


if __name__ == "__main__":
    json.dump(definitions(), sys.stdout)
