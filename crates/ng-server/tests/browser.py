"""Opens the page of a running server in headless Chromium and checks what a reader meets.

    python3 browser.py http://127.0.0.1:7401/ [FOLDER FOR SCREENSHOTS] [SECONDS OF WATCHING]

Without dependencies: the browser's own protocol over a pipe. Prints what is wrong; ends with 77
where no browser is installed.
"""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

SECONDS_MAX = 120
HOSTILE = '<img src=x onerror="document.title=1">&"\'</script>'
# What has no name for those who do not see it.
NAMELESS = """[...document.querySelectorAll(
    'button,input,select,svg[role=img],svg[role=group],summary,[role=region],[role=button]')]
  .filter((e) => e.checkVisibility() && !(e.getAttribute('aria-label')
    || e.getAttribute('aria-labelledby') || (e.labels && e.labels.length) || e.textContent.trim()))
  .map((e) => e.outerHTML.slice(0, 120))"""
WIDER = """[document.documentElement.scrollWidth, innerWidth]"""
# The last graph is picked, and node 8 in it.
PICK = """(() => { const form = document.querySelector('#hops form').elements;
  form.graph.selectedIndex = form.graph.options.length - 1;
  form.graph.dispatchEvent(new Event('change')); form.node.value = '8'; })()"""
# Metrics that break careless readers, and what follows from them.
PARSES = r"""(async () => {
  const m = await import('/page/metrics.js');
  const text = '# HELP a b\na{x="}\\"\\\\\\n,",y="2",} 1 1700000000\na 2\nb{le="+Inf"} NaN\n'
    + 'broken{x="1\nbroken{x=1} 2\nc +Inf\nd 1e3\n\n}{\ne{} 5\nf abc\n';
  const all = m.parse(text).map((s) => [s.name, s.labels, String(s.value)]);
  const h = (one, two, n) => `h_bucket{le="1"} ${one}\nh_bucket{le="2"} ${two}\n`
    + `h_bucket{le="+Inf"} ${two}\nn ${n}`;
  const older = new m.Reading(h(10, 10, 5), 0);
  const newer = new m.Reading(h(20, 30, 9), 2);
  const own = m.classes(older, newer, 'h');
  const over = m.percentile([{end: 1, count: 1}, {end: Infinity, count: 9}], 0.5);
  return JSON.stringify([all, own.map((c) => c.count), m.percentile(own, 0.75).value, over,
    m.rate(older, newer, 'n'), m.rate(newer, older, 'n'), m.rate(older, newer, 'gone'),
    m.percentile(m.classes(newer, older, 'h'), 0.5), m.percentile(own, 0.25)]);
})()"""
PARSED = [
    [
        ["a", {"x": '}"\\\n,', "y": "2"}, "1"], ["a", {}, "2"], ["b", {"le": "+Inf"}, "NaN"],
        ["c", {}, "Infinity"], ["d", {}, "1000"], ["e", {}, "5"],
    ],
    [10, 10, 0], 1.5, {"value": 1, "over": True}, 2, None, None, None,
    {"value": 1, "over": False, "under": True},
]  # fmt: skip


class Browser:
    """A browser that is spoken to through a pipe."""

    def __init__(self, program: str, profile: str) -> None:
        to_browser, self.write_end = os.pipe()
        self.read_end, from_browser = os.pipe()
        flags = ["--headless=new", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe"]
        flags += ["--disable-dev-shm-usage", "--no-first-run", f"--user-data-dir={profile}"]
        redirect = f'exec "$0" "$@" 3<&{to_browser} 4>&{from_browser}'
        command = ["bash", "-c", redirect, program, *flags, "about:blank"]
        self.process = subprocess.Popen(
            command, pass_fds=(to_browser, from_browser), stderr=subprocess.DEVNULL
        )
        os.close(to_browser)
        os.close(from_browser)
        self.session: str | None = None
        self.number = 0
        self.buffer = b""
        self.wrong: list[str] = []
        self.replace: dict[str, str] = {}
        self.end = time.monotonic() + SECONDS_MAX
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        attached = self.call("Target.attachToTarget", targetId=target, flatten=True)
        self.session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self.call(f"{domain}.enable")

    def send(self, method: str, parameters: dict[str, Any]) -> int:
        """Sends a command."""
        self.number += 1
        message = {"id": self.number, "method": method, "params": parameters}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.write_end, json.dumps(message).encode() + b"\0")
        return self.number

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Sends a command and waits for its result."""
        number = self.send(method, parameters)
        while True:
            message = self.next()
            if message.get("id") == number:
                if "error" in message:
                    raise RuntimeError(f"{method}: {message['error']}")
                result: dict[str, Any] = message["result"]
                return result

    def next(self) -> dict[str, Any]:
        """The next message; events are noted."""
        while b"\0" not in self.buffer:
            if time.monotonic() > self.end:
                raise TimeoutError("the browser took too long")
            some = os.read(self.read_end, 1 << 20)
            if not some:
                raise RuntimeError("the browser ended")
            self.buffer += some
        line, self.buffer = self.buffer.split(b"\0", 1)
        message: dict[str, Any] = json.loads(line)
        self.note(message.get("method"), message.get("params", {}))
        return message

    def note(self, method: str | None, event: dict[str, Any]) -> None:
        """What goes wrong in the page, and requests that are answered here."""
        if method == "Runtime.exceptionThrown":
            details = event["exceptionDetails"]
            self.wrong.append(f"exception: {details.get('exception', details)}")
        elif method == "Log.entryAdded" and event["entry"]["level"] == "error":
            entry = event["entry"]
            # A server without metrics says 404, which the page shows.
            if not entry.get("url", "").endswith("/metrics"):
                self.wrong.append(f"log: {entry['text']} {entry.get('url', '')}")
        elif method == "Fetch.requestPaused":
            path = "/" + event["request"]["url"].split("/", 3)[3].split("?")[0]
            request = {"requestId": event["requestId"]}
            if path in self.replace:
                body = base64.b64encode(self.replace[path].encode()).decode()
                answer = {"responseCode": 200, "body": body, **request}
                self.send("Fetch.fulfillRequest", answer)
            else:
                self.send("Fetch.continueRequest", request)

    def eval(self, text: str) -> Any:
        """The value of an expression in the page."""
        result = self.call(
            "Runtime.evaluate", expression=text, awaitPromise=True, returnByValue=True
        )
        if "exceptionDetails" in result:
            raise RuntimeError(f"{text}: {result['exceptionDetails']}")
        return result["result"].get("value")

    def wait(self, text: str, seconds: float = 20) -> bool:
        """Waits until an expression is true."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if self.eval(f"Boolean({text})"):
                return True
            time.sleep(0.1)
        self.wrong.append(f"never became true: {text}")
        return False

    def key(self, key: str) -> None:
        """Presses a key."""
        codes = {"Tab": 9, "Enter": 13, "ArrowLeft": 37, "ArrowRight": 39}
        more = {"text": "\r"} if key == "Enter" else {}
        event = {"key": key, "code": key, "windowsVirtualKeyCode": codes[key]}
        self.call("Input.dispatchKeyEvent", type="keyDown", **event, **more)
        self.call("Input.dispatchKeyEvent", type="keyUp", **event)

    def size(self, width: int, height: int, mobile: bool = False) -> None:
        """Changes the size of the window."""
        size = {"width": width, "height": height, "mobile": mobile}
        self.call("Emulation.setDeviceMetricsOverride", deviceScaleFactor=1, **size)

    def picture(self, path: Path | None) -> None:
        """Saves what the page looks like."""
        if path:
            box = self.call("Page.getLayoutMetrics")["cssContentSize"]
            clip = {"x": 0, "y": 0, "width": box["width"], "height": box["height"], "scale": 1}
            shot = self.call("Page.captureScreenshot", captureBeyondViewport=True, clip=clip)
            path.write_bytes(base64.b64decode(shot["data"]))

    def check(self, is_right: object, what: str) -> None:
        """Notes what is wrong."""
        if not is_right:
            self.wrong.append(what)


def watch(browser: Browser, url: str, shots: Path | None, seconds: float) -> None:
    """The page as it is served: numbers, names, keyboard, colours, widths."""
    browser.size(1280, 900)
    browser.call("Emulation.setEmulatedMedia", features=[dark(False)])
    browser.call("Page.navigate", url=url)
    browser.wait("document.querySelector('#state')?.textContent.includes('ready')")
    time.sleep(seconds)
    parsed = json.loads(browser.eval(PARSES))
    browser.check(parsed == PARSED, f"metrics are read as {parsed}")
    browser.check(browser.eval("document.querySelectorAll('#tiles dd').length") == 8, "tiles")
    browser.wait(
        "document.querySelector('#graphs table') && document.querySelector('#models table')"
    )
    browser.eval(PICK)
    hops(browser)
    nameless = browser.eval(NAMELESS)
    browser.check(not nameless, f"without a name: {nameless}")
    keyboard(browser)
    named = shots and (lambda name: shots / f"{name}.png")
    browser.picture(named and named("light"))
    browser.eval("document.querySelector('#theme').click()")
    browser.check(
        browser.eval("getComputedStyle(document.body).backgroundColor") == "rgb(17, 21, 26)",
        "the button does not change the colours",
    )
    browser.picture(named and named("dark"))
    for width in (390, 320):
        browser.size(width, 844, mobile=True)
        time.sleep(0.3)
        wide, window = browser.eval(WIDER)
        browser.check(wide <= window == width, f"{wide} wide on a window of {window} ({width})")
        browser.picture(named and named(f"phone-{width}"))


def dark(is_dark: bool) -> dict[str, str]:
    """The colours that the system is set to."""
    return {"name": "prefers-color-scheme", "value": "dark" if is_dark else "light"}


def hops(browser: Browser) -> None:
    """The neighbourhood of a node, by keyboard."""
    browser.wait("!document.querySelector('#hops button').disabled")
    browser.eval("document.querySelector('#hops input[name=node]').focus()")
    browser.key("Enter")
    if not browser.wait("document.querySelectorAll('#hops .node').length > 5"):
        browser.wrong.append(browser.eval("document.querySelector('[data-said]').textContent"))
        return
    rows = browser.eval("document.querySelectorAll('#hops tbody tr').length")
    drawn = browser.eval("document.querySelectorAll('#hops .node').length")
    browser.check(rows == drawn, f"{drawn} nodes drawn, {rows} listed")
    said = browser.eval("document.querySelector('[data-said]').textContent")
    browser.check("answered at commit" in said, f"no model answered: {said}")
    browser.eval("document.querySelector('#hops .node.hop0').focus()")
    browser.key("ArrowRight")
    id = browser.eval("document.activeElement.dataset.id")
    browser.check(id and id != "8", f"the arrow keys do not go to another node: {id}")
    browser.key("Enter")
    browser.wait(f"document.querySelector('#hops .node.hop0')?.dataset.id === '{id}'")


def keyboard(browser: Browser) -> None:
    """The first chart is reached with Tab and read with the arrow keys."""
    measured = browser.eval("Boolean(document.querySelector('#requests svg[tabindex]'))")
    if not measured:
        return
    browser.eval("document.querySelector('.skip').focus()")
    for _ in range(12):
        browser.key("Tab")
        if browser.eval("Boolean(document.activeElement.closest('#requests'))"):
            break
    browser.check(
        browser.eval("document.activeElement.tagName") == "svg", "Tab does not reach the chart"
    )
    browser.key("ArrowLeft")
    read = browser.eval("document.querySelector('#requests .readout').textContent")
    browser.check("answered" in read, f"the chart reads {read!r}")
    # The chart is drawn anew meanwhile, and must keep the focus.
    time.sleep(2.2)
    browser.check(browser.eval("document.activeElement.tagName") == "svg", "the focus is lost")


def attack(browser: Browser, url: str) -> None:
    """Names that are markup are text."""
    label = HOSTILE.replace('"', '\\"')
    graph = {
        "name": HOSTILE, "commit": 1, "bytes_on_disk": 1, "read_only_because": HOSTILE,
        "node_types": [{"name": HOSTILE, "nodes": 3}],
        "edge_types": [{"name": HOSTILE, "source": HOSTILE, "destination": HOSTILE, "edges": 2}],
    }  # fmt: skip
    model = {"name": HOSTILE, "version": 1, "graph": HOSTILE, "ready": 0.5, "problem": HOSTILE}
    metric = "\n".join(
        f'{name}{{graph="{label}",method="{label}",user="{label}",state="{label}"}} 5'
        for name in ("neargraph_memory_bytes", "neargraph_request_seconds_count",
                     "neargraph_device_depth", "neargraph_jobs", "neargraph_read_bytes_total",
                     "neargraph_useful_bytes_total")
    )  # fmt: skip
    browser.replace = {
        "/api/graphs": json.dumps([graph]), "/api/models": json.dumps([model]),
        "/metrics": metric,
    }  # fmt: skip
    browser.call("Fetch.enable")
    browser.size(390, 844, mobile=True)
    browser.call("Page.navigate", url=url)
    browser.wait("document.querySelector('#memory .stacked')")
    browser.wait("document.querySelector('#graphs table')")
    seen = browser.eval("document.querySelector('#graphs tbody th').textContent")
    browser.check(seen == HOSTILE, f"the name of a graph reads {seen!r}")
    browser.check(browser.eval("document.querySelectorAll('img').length") == 0, "markup of a name")
    browser.check(browser.eval("document.title") == "neargraph", "a name ran as a script")
    wide, window = browser.eval(WIDER)
    browser.check(wide <= window, f"long names make the page {wide} wide on {window}")


def main() -> int:
    """Checks a page."""
    url = sys.argv[1]
    shots = Path(sys.argv[2]) if len(sys.argv) > 2 else None
    seconds = float(sys.argv[3]) if len(sys.argv) > 3 else 5
    names = ("chromium", "chromium-browser", "google-chrome", "chrome")
    program = next(filter(None, map(shutil.which, names)), None)
    if program is None:
        print("skipped: no browser is installed (Debian: chromium)")
        return 77
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        browser = Browser(program, profile)
        browser.end += seconds
        try:
            watch(browser, url, shots, seconds)
            attack(browser, url)
        finally:
            browser.process.kill()
            browser.process.wait()
    for line in browser.wrong:
        print(line)
    return 1 if browser.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
