"""Finds what a plug-in's scripts would change on the machine, and keeps them from it.

Two nets. Scripts are read, with the scripts that they name, before they run: what they would
change is shown to the user, who may allow it. Where it is not allowed, the programs that change
systems are covered by ones that refuse (`shims`), which catches commands put together at run time.
Neither is a sandbox: a plug-in is a program that runs with the user's rights.
"""

# ruff: noqa: SIM905 - lists of words are easier to read as text
from __future__ import annotations

import ast
import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

#: Programs that change the system whatever their arguments.
CHANGES = frozenset(
    """
    sudo su doas pkexec
    apt apt-get aptitude dpkg add-apt-repository dnf yum rpm zypper pacman apk snap flatpak brew
    systemctl service sysctl modprobe insmod rmmod mount umount swapon swapoff mkfs fdisk
    useradd usermod userdel groupadd passwd chsh crontab update-alternatives ldconfig update-grub
    iptables nft ufw netplan nmcli ifconfig mlxconfig mlxfwmanager mst bfb-install
    reboot shutdown poweroff docker podman
    """.split()
)
#: Of these, words of plain English: alone in a text they mean nothing.
_ENGLISH = frozenset({"service", "mount", "su", "snap", "passwd", "reboot", "shutdown", "nft"})
#: Programs that write where an argument says.
_WRITERS = frozenset(
    "cp mv rm ln tee install mkdir rmdir touch chmod chown sed tar unzip rsync dd truncate".split()
)
_SYSTEM_PATH = re.compile(
    r"^(/(etc|usr|bin|sbin|lib|lib32|lib64|boot|opt|srv|var|root|home|sys|proc|dev)(/|$)"
    r"|~|\$HOME|\$\{HOME\})"
)
_HARMLESS_PATH = re.compile(r"^/(dev/(null|stdout|stderr|zero|urandom|shm)|var/tmp/)")
_REDIRECT = re.compile(r"(?<![0-9&])[0-9]?>{1,2}\s*([^\s;&|]+)")
_PIPED_SHELL = re.compile(r"\b(curl|wget)\b[^;&\n]{0,500}\|\s*(ba|z|da)?sh\b")
_SEPARATOR = re.compile(r"&&|\|\||[;|\n]|\$\(|`")
#: Calls whose arguments are meant for people, not for a shell.
_TALK = frozenset(
    "print info debug warning error exception critical log input add_argument ArgumentParser "
    "exit append_help which".split()
)
_WRITE_CALLS = frozenset(
    "remove unlink rmdir removedirs makedirs mkdir rename replace chmod chown symlink link "
    "rmtree copy copy2 copyfile copytree move write_text write_bytes".split()
)
_SCRIPTS_MAX = 64
_SCRIPT_BYTES_MAX = 1 << 18
_FINDINGS_MAX = 50


@dataclass(frozen=True)
class Finding:
    """One place that would change the system."""

    file: str
    line: int
    what: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.what}"


def system_changes(script: Path, roots: Sequence[Path]) -> list[Finding]:
    """What `script`, and the scripts below `roots` that it names or imports, would change.

    Paths in findings are relative to the first root. A script that cannot be read is a finding.
    """
    findings: dict[Finding, None] = {}
    waiting, seen = [script], {script.resolve()}
    while waiting and len(findings) < _FINDINGS_MAX:
        path = waiting.pop(0)
        shown = _shown(path, roots)
        try:
            if path.stat().st_size > _SCRIPT_BYTES_MAX:
                findings[Finding(shown, 1, "is too large to be read beforehand")] = None
                continue
            text = path.read_text("utf-8")
        except (OSError, UnicodeDecodeError) as error:
            findings[Finding(shown, 1, f"cannot be read beforehand ({error})")] = None
            continue
        words: list[str] = []
        for line, what in _read(path, text, words):
            findings[Finding(shown, line, what)] = None
        for named in _scripts_named(words, [path.parent, *roots], roots):
            if named.resolve() not in seen and len(seen) < _SCRIPTS_MAX:
                seen.add(named.resolve())
                waiting.append(named)
    return list(findings)[:_FINDINGS_MAX]


def mentions_pip(script: Path) -> bool:
    """Whether a script seems to install Python packages: it then gets an environment of its own."""
    try:
        return re.search(r"\bpip[0-9.]*\b", script.read_text("utf-8", "replace")) is not None
    except OSError:
        return False


def shims(folder: Path) -> Path:
    """Makes a folder of programs that stand for `CHANGES` and refuse; to be put first in PATH.

    What was refused is written to the file `refused` in that folder.
    """
    folder.mkdir(parents=True, exist_ok=True)
    refuse = folder / ".refuse"
    record = shlex.quote(str(folder / "refused"))
    refuse.write_text(
        "#!/bin/sh\n"
        'name="${0##*/}"\n'
        f'printf "%s %s\\n" "$name" "$*" >> {record}\n'
        'echo "$name: not run, for it would change this system;'
        ' overside run --allow-system-changes allows it" >&2\n'
        "exit 126\n"
    )
    refuse.chmod(0o755)
    for name in CHANGES:
        link = folder / name
        if not link.is_symlink():
            link.symlink_to(refuse.name)
    return folder


def refused(folder: Path) -> list[str]:
    """The commands that the shims refused since the last call."""
    record = folder / "refused"
    try:
        lines = record.read_text("utf-8", "replace")[:4096].splitlines()
        record.unlink()
    except OSError:
        return []
    return lines[:5]


def _shown(path: Path, roots: Sequence[Path]) -> str:
    for root in roots:
        if path.is_relative_to(root):
            return str(path.relative_to(root))
    return str(path)


def _read(path: Path, text: str, words: list[str]) -> Iterator[tuple[int, str]]:
    """Line and change; `words` takes all text that may name another script."""
    if path.suffix == ".py" or text.partition("\n")[0].rstrip().endswith(("python", "python3")):
        reader = _PythonReader(words)
        try:
            reader.visit(ast.parse(text))
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            pass  # read as plain lines, below
        else:
            yield from reader.found
            return
    for number, line in enumerate(text.splitlines(), 1):
        code = "" if line.lstrip().startswith("#") else line
        words.extend(re.split(r"[\s'\"=]+", code)[:200])
        for what in shell_changes(code):
            yield number, what


def shell_changes(text: str) -> list[str]:
    """What a line of shell would change, in the words of the line."""
    found = []
    if _PIPED_SHELL.search(text):
        found.append(f"runs what it downloads: {text.strip()[:120]}")
    for target in _REDIRECT.findall(text):
        if _is_system_path(target.strip("'\"")):
            found.append(f"writes to {target}")
    parts = _SEPARATOR.split(text)
    alone = len(parts) == 1 and len(text.split(maxsplit=1)) == 1
    for part in parts:
        words = _split(part)
        while words and ("=" in words[0] or words[0] in {"env", "exec", "time", "nohup", "then"}):
            words = words[1:]
        if words and (what := argv_changes(words, alone=alone)):
            found.append(what)
    return found


def argv_changes(argv: Sequence[str], *, alone: bool = False) -> str | None:
    """What a command would change, in its own words; `None` if nothing is known of it."""
    name, rest = Path(argv[0].strip("@-+(){}'\"")).name, list(argv[1:])
    shown = " ".join([name, *rest])[:120]
    if name in CHANGES:
        return None if alone and name in _ENGLISH else shown
    if re.fullmatch(r"pip[0-9.]*", name):
        return _pip_changes(argv[0], rest, shown)
    if re.fullmatch(r"python[0-9.]*", name) and rest[:2] == ["-m", "pip"]:
        return _pip_changes(argv[0], rest[2:], shown)
    if name in _WRITERS and any(_is_system_path(word.partition("=")[2] or word) for word in rest):
        # Copying from a system path is harmless: only the last path is written to.
        paths = [word for word in rest if not word.startswith("-")]
        reads_first = name in {"cp", "ln", "install", "rsync", "tar", "unzip"}
        if not reads_first or (paths and _is_system_path(paths[-1])) or name == "tar":
            return shown
    if name in {"make", "ninja", "gmake"} and "install" in rest:
        return shown
    if name in {"cmake", "meson"} and ("--install" in rest or "install" in rest[:1]):
        return shown
    if name == "git" and (
        "--global" in rest or "--system" in rest or rest[:2] == ["lfs", "install"]
    ):
        return None if "--local" in rest else shown
    if name in {"npm", "yarn"} and ("-g" in rest or "--global" in rest):
        return shown
    if name in {"gem", "conda", "cargo", "go"} and rest[:1] == ["install"]:
        return shown
    return None


def _pip_changes(program: str, rest: list[str], shown: str) -> str | None:
    """Pip is harmless where it writes into the run's own environment."""
    if not {"install", "uninstall"} & set(rest):
        return None
    outside = {"--user", "--target", "-t", "--prefix", "--root", "--break-system-packages"}
    given = {word.partition("=")[0] for word in rest}
    other_python = re.search(r"(pip|python)3?\.[0-9]+$", program) is not None
    return shown if program.startswith("/") or outside & given or other_python else None


def _is_system_path(word: str) -> bool:
    return _SYSTEM_PATH.match(word) is not None and _HARMLESS_PATH.match(word) is None


def _split(text: str) -> list[str]:
    try:
        return shlex.split(text, comments=True)
    except ValueError:
        return text.split()


class _PythonReader(ast.NodeVisitor):
    """Collects commands, writes, and names of other scripts from a Python script.

    Texts that only people read are left out: docstrings, messages, help.
    """

    def __init__(self, words: list[str]) -> None:
        self.words = words
        self.found: list[tuple[int, str]] = []

    def visit_Expr(self, node: ast.Expr) -> None:
        # A lone constant is a docstring or a block that was commented out.
        if not isinstance(node.value, ast.Constant):
            self.generic_visit(node)

    def visit_Raise(self, node: ast.Raise) -> None:
        """An error's text is for people."""

    def visit_Call(self, node: ast.Call) -> None:
        name = _call_name(node)
        if name in _TALK:
            return
        if name in _WRITE_CALLS or name == "open":
            self.found.extend(_python_writes(node, name))
        self.generic_visit(node)

    def visit_Import(self, node: ast.Import) -> None:
        self.words.extend(f"{alias.name.replace('.', '/')}.py" for alias in node.names)

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        if node.module:
            folder = node.module.replace(".", "/")
            self.words.append(f"{folder}.py")
            self.words.extend(f"{folder}/{alias.name}.py" for alias in node.names)

    def visit_List(self, node: ast.List) -> None:
        self._argv(node)

    def visit_Tuple(self, node: ast.Tuple) -> None:
        self._argv(node)

    def _argv(self, node: ast.List | ast.Tuple) -> None:
        argv = [_text(element) for element in node.elts]
        self.words.extend(argv)
        if argv and argv[0] and (what := argv_changes(argv)):
            self.found.append((node.lineno, what))
        for before, word in zip(["", *argv], argv, strict=False):
            if " " in word or before == "-c":
                self._shell(node.lineno, word)
        for element in node.elts:
            if not isinstance(element, ast.Constant | ast.JoinedStr):
                self.visit(element)

    def visit_Constant(self, node: ast.Constant) -> None:
        self._shell(node.lineno, _text(node))

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        self._shell(node.lineno, _text(node))
        for value in node.values:
            if isinstance(value, ast.FormattedValue):
                self.visit(value.value)

    def _shell(self, number: int, text: str) -> None:
        self.words.extend(re.split(r"[\s'\"=]+", text)[:200])
        for offset, line in enumerate(text.splitlines()):
            self.found.extend((number + offset, what) for what in shell_changes(line))


def _python_writes(node: ast.Call, name: str) -> Iterator[tuple[int, str]]:
    paths = [_text(argument) for argument in node.args]
    if isinstance(node.func, ast.Attribute) and isinstance(node.func.value, ast.Call):
        paths += [_text(argument) for argument in node.func.value.args]  # Path("/etc/x").unlink()
    if name == "open":
        mode = paths[1] if len(paths) > 1 else ""
        mode += "".join(_text(word.value) for word in node.keywords if word.arg == "mode")
        if not set(mode) & set("wax+"):
            return
        paths = paths[:1]
    elif name in {"copy", "copy2", "copyfile", "copytree"}:
        paths = paths[1:]
    for path in paths:
        if path and _is_system_path(path):
            yield node.lineno, f"writes to {path} ({name})"


def _call_name(node: ast.Call) -> str:
    if isinstance(node.func, ast.Attribute):
        return node.func.attr
    return node.func.id if isinstance(node.func, ast.Name) else ""


def _text(node: ast.AST) -> str:
    """A string as far as it is known before the script runs."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else ""
    if isinstance(node, ast.JoinedStr):
        return "".join(_text(value) or "{}" for value in node.values)
    return ""


def _scripts_named(
    words: Sequence[str], folders: Sequence[Path], roots: Sequence[Path]
) -> Iterator[Path]:
    for word in dict.fromkeys(words):
        if not word.endswith((".py", ".sh", ".bash", ".pl", ".mk", "Makefile", "makefile")):
            continue
        for folder in folders:
            path = folder / word.strip("'\";,()")
            try:
                inside = any(path.resolve().is_relative_to(root.resolve()) for root in roots)
                if inside and path.is_file():
                    yield path
                    break
            except (OSError, ValueError):
                continue
