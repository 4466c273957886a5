"""List, make, fetch or verify data sets."""

from __future__ import annotations

import sys
from typing import Any

from overside import _core
from overside.commands import Arguments, output
from overside.data import DataSet, catalog, fetch, silesia
from overside.errors import Exit, UserError


def main(args: Arguments) -> int:
    """Runs the verb."""
    actions = {"list": _list, "make": _make, "fetch": _fetch, "verify": _verify}
    return int(actions[args.action](args))


def _list(args: Arguments) -> Exit:
    show(seed=args.seed, as_json=args.json)
    return Exit.OK


def show(*, name: str | None = None, seed: int = 0, as_json: bool = False) -> None:
    """Prints all data sets, or the one of that name.

    Raises `UserError` if there is none.
    """
    rows = catalog.table(seed)
    if name is not None:
        rows = [row for row in rows if row["name"] == name.partition("/")[0]]
        if not rows or name not in {rows[0]["name"], *catalog.names()}:
            raise UserError(f"there is no data set {name}", "`overside data list` shows all")
    if as_json:
        output.document("data/1", data=rows)
        return
    for row in rows:
        size = _size(row["size_bytes"])
        print(f"{row['name']:<10} {row['state']:<11} {size:>8}  {row['description']}")
        print(f"{'':<32}origin   {row['origin']}")
        print(f"{'':<32}licence  {row['licence']}")
        if row["where"]:
            print(f"{'':<32}where    {row['where']}")
        if row["digest"]:
            print(f"{'':<32}sha256   {row['digest']}")
        if row["state"] not in {"made", "at hand"}:
            print(f"{'':<32}get it   {row['get']}")
    if name is None:
        print("\nAny file or directory is a data set too: give its path.")


def _make(args: Arguments) -> Exit:
    made_here = ", ".join(catalog.RECIPES)
    for name in args.names:
        if name in catalog.names() and name not in catalog.RECIPES:
            raise UserError(f"the data set {name} is fetched, not made", "overside data fetch")
        if name not in catalog.RECIPES:
            raise UserError(f"there is no data set {name} to make", f"there are {made_here}")
    made = [catalog.resolve(name, seed=args.seed, again=args.again) for name in args.names]
    _show(made, as_json=args.json)
    return Exit.OK


def _fetch(args: Arguments) -> Exit:
    if args.name != "silesia" and args.name not in catalog.names():
        raise UserError(
            f"there is no data set {args.name!r} to fetch", "overside data fetch silesia"
        )
    if args.name in catalog.RECIPES:
        raise UserError(
            f"the data set {args.name} is made, not fetched", f"overside data make {args.name}"
        )
    with fetch.terminal_progress("silesia") as progress:
        silesia.fetch_corpus(args.url or silesia.URL, progress)
    _show([catalog.resolve(args.name)], as_json=args.json)
    return Exit.OK


def _verify(args: Arguments) -> Exit:
    away = {"not made", "not at hand"}
    here = [row["name"] for row in catalog.table(args.seed) if row["state"] not in away]
    rows: list[dict[str, Any]] = []
    for name in args.names:
        if name not in catalog.names() and (reason := catalog.absent(name)):
            raise UserError(reason, "`overside data list` shows the data sets")
    for name in args.names or here:
        data, wrong = catalog.verify(name, args.seed)
        rows.append({"name": name, "ok": data is not None, "problem": wrong or None})
        if data:
            rows[-1] |= {"digest": data.digest, "size_bytes": data.size_bytes}
    if args.json:
        output.document("data/1", data=rows)
    for row in [] if args.json else rows:
        print(f"{row['name']:<20} {'ok      ' + row['digest'] if row['ok'] else row['problem']}")
    if not rows:
        print("no data set is here; `overside data make NAME` makes one", file=sys.stderr)
    return Exit.OK if all(row["ok"] for row in rows) else Exit.VERIFICATION_FAILED


def _show(sets: list[DataSet], *, as_json: bool) -> None:
    if as_json:
        where = [{"where": [str(path) for path in data.files]} for data in sets]
        shown = [data.json() | there for data, there in zip(sets, where, strict=True)]
        output.document("data/1", data=shown)
        return
    for data in sets:
        print(f"{data.name:<10} {_size(data.size_bytes):>8}  {data.digest}")
        print(f"{'':<21}{data.files[0].parent}")
        if data.note:
            print(f"{'':<21}{data.note}")


def _size(size_bytes: int | None) -> str:
    return "" if size_bytes is None else _core.size(size_bytes)
