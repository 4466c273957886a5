"""Drives a headless Chromium over its debugging pipe, with nothing but the standard library.

Unless it is to reach a server here, the browser runs in a network namespace of its own: a page that
tried to load something could not.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

Json = dict[str, Any]

TIMEOUT_S = 300
#: A promise of the page's charts: the page says in this attribute how many it has drawn.
_UNTIL_DRAWN = """new Promise(resolve => {
  const root = document.documentElement;
  const look = () => root.dataset.charts !== undefined && resolve(true);
  new MutationObserver(look).observe(root, {attributes: true});
  look();
})"""


def unavailable() -> str | None:
    """Reason why there is no browser to test with; `None` if there is one."""
    if shutil.which("chromium") is None:
        return "chromium is not installed"
    try:
        probe = subprocess.run([*_isolated(), "true"], capture_output=True, timeout=10, check=False)
    except OSError as error:
        return f"no network namespaces: {error}"
    return None if probe.returncode == 0 else f"no network namespaces: {probe.stderr.decode()}"


def _isolated() -> list[str]:
    return ["unshare", "-n"] if os.geteuid() == 0 else ["unshare", "-r", "-n"]


class Page:
    """A browser that shows one page after the other, each in a tab of its own."""

    def __init__(self, write_fd: int, read_fd: int) -> None:
        self._write, self._read = write_fd, read_fd
        self._buffer = b""
        self._next = 0
        self._target: str | None = None
        self._session: str | None = None
        #: Documents of this tab that are loaded.
        self._loaded: set[str] = set()
        #: Console messages and exceptions of the page.
        self.console: list[str] = []
        #: Addresses that the page asked for, itself included.
        self.requests: list[str] = []

    def attach(self) -> None:
        """Opens a new tab in the place of the last, which may still ask for something: its icon."""
        before, self._session = self._target, None
        self._target = self.call("Target.createTarget", url="about:blank")["targetId"]
        if before is not None:
            self.call("Target.closeTarget", targetId=before)
        attached = self.call("Target.attachToTarget", targetId=self._target, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")
        self.call("Page.setLifecycleEventsEnabled", enabled=True)
        self.console.clear()
        self.requests.clear()
        self._loaded.clear()

    def call(self, method: str, **parameters: Any) -> Json:
        """One command and its answer; events of this tab that come meanwhile are noted."""
        self._next += 1
        message: Json = {"id": self._next, "method": method, "params": parameters}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._receive()
            if answer.get("id") == self._next:
                assert "error" not in answer, answer
                result: Json = answer["result"]
                return result
            self._note(answer)

    def _receive(self) -> Json:
        while b"\0" not in self._buffer:
            ready, _, _ = select.select([self._read], [], [], TIMEOUT_S)
            assert ready, "chromium does not answer"
            part = os.read(self._read, 1 << 20)
            assert part, "chromium has ended"
            self._buffer += part
        line, self._buffer = self._buffer.split(b"\0", 1)
        answer: Json = json.loads(line)
        return answer

    def _note(self, event: Json) -> None:
        if event.get("sessionId") != self._session:
            return
        about = event.get("params", {})
        match event.get("method"):
            case "Runtime.consoleAPICalled":
                texts = [str(a.get("value", a.get("description"))) for a in about["args"]]
                self.console.append(f"{about['type']}: {' '.join(texts)}")
            case "Runtime.exceptionThrown":
                self.console.append(str(about["exceptionDetails"]))
            case "Log.entryAdded":
                self.console.append(f"{about['entry']['level']}: {about['entry']['text']}")
            case "Page.lifecycleEvent" if about["name"] == "load":
                self._loaded.add(about["loaderId"])
            case "Network.requestWillBeSent":
                self.requests.append(about["request"]["url"])

    def evaluate(self, expression: str) -> Any:
        """The value of a JavaScript expression in the page; promises are awaited."""
        answer = self.call(
            "Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True
        )
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def show(self, path: Path, width: int = 1280, height: int = 900, dark: bool = False) -> None:
        """Opens a file and waits until its charts are drawn."""
        self.visit(path.resolve().as_uri(), width, height, dark)
        self.evaluate(_UNTIL_DRAWN)

    def visit(self, url: str, width: int = 1280, height: int = 900, dark: bool = False) -> None:
        """Opens a page in a new tab and waits until it is loaded."""
        self.attach()
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=width < 600,
        )
        self.theme(dark)
        document = self.call("Page.navigate", url=url)["loaderId"]
        while document not in self._loaded:
            self._note(self._receive())

    def theme(self, dark: bool, media: str = "") -> None:
        """Sets the answer to `prefers-color-scheme`, and the medium, such as `print`."""
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", media=media, features=[scheme])

    def key(self, name: str, text: str = "") -> None:
        """Presses a key as a user would."""
        for kind in ("keyDown", "keyUp"):
            codes = {"Enter": 13, " ": 32}
            extra = {"text": text} if text and kind == "keyDown" else {}
            self.call(
                "Input.dispatchKeyEvent",
                type=kind,
                key=name,
                windowsVirtualKeyCode=codes.get(name, 0),
                **extra,
            )


@contextlib.contextmanager
def browser(home: Path, *, with_network: bool = False) -> Iterator[Page]:
    """A browser; `home` holds its profile. Unless with network, it reaches nothing."""
    to_read, to_write = os.pipe()
    from_read, from_write = os.pipe()

    command = [
        # The pipe is expected at 3 and 4, wherever it is here.
        "bash",
        "-c",
        f'exec "$@" 3<&{to_read} 4>&{from_write}',
        "bash",
        *([] if with_network else _isolated()),
        "chromium",
        "--headless=new",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-background-networking",
        "--disable-component-update",
        "--no-first-run",
        f"--user-data-dir={home}",
        "--remote-debugging-pipe",
    ]
    process = subprocess.Popen(
        command,
        pass_fds=(to_read, from_write),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    os.close(to_read)
    os.close(from_write)
    try:
        yield Page(to_write, from_read)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        os.close(to_write)
        os.close(from_read)
