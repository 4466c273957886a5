"""Tables served near storage, with projection and predicate pushed down.

`server` speaks Arrow Flight SQL and answers from DuckDB (`engine`); `dataset` is the other side for
Python. Needs the extra `overside[flow]`: pyarrow and DuckDB.
"""

from __future__ import annotations

import importlib

from overside.errors import Exit, UserError


def require(*modules: str) -> None:
    """Raises `UserError` if packages of the extra `overside[flow]` are missing."""
    for module in modules:
        try:
            importlib.import_module(module)
        except ImportError as error:
            raise UserError(
                f"this needs {module}, which cannot be imported: {error}",
                "pip install 'overside[flow]'",
                Exit.ABSENT,
            ) from None
