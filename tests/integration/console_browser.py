"""Chromium for tests of the console: driven by Selenium, without a window, with axe-core loaded into pages.

Chromium and its driver come from the package manager (`apt-get install chromium chromium-driver`). axe-core comes from
npm once and stays in `${XDG_CACHE_HOME:-~/.cache}/tidelog/axe-core-<version>`, outside the tree. Without one of them,
`unavailable_reason` says why.
"""

from __future__ import annotations

import base64
import os
import shutil
import subprocess
import tarfile
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from selenium import webdriver
from selenium.webdriver.chrome.options import Options
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import Select

AXE_VERSION = "4.10.3"


def unavailable_reason() -> str | None:
    """Why no browser can be driven here, or None."""
    for program in ("chromium", "chromedriver"):
        if shutil.which(program) is None:
            return f"{program} is not installed"
    try:
        axe_source()
    except (OSError, subprocess.SubprocessError, KeyError) as error:
        return f"axe-core could not be fetched with npm: {error}"
    return None


def axe_source() -> str:
    """The script of axe-core, fetched the first time."""
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    file = Path(base) / "tidelog" / f"axe-core-{AXE_VERSION}" / "axe.min.js"
    if not file.exists():
        with tempfile.TemporaryDirectory() as directory:
            command = ["npm", "pack", "--silent", f"axe-core@{AXE_VERSION}"]
            subprocess.run(command, cwd=directory, check=True, capture_output=True, timeout=60)
            with tarfile.open(Path(directory) / f"axe-core-{AXE_VERSION}.tgz") as archive:
                member = archive.extractfile("package/axe.min.js")
                assert member is not None
                content = member.read()
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)
    return file.read_text(encoding="utf-8")


class Chromium:
    """One browser at one console."""

    def __init__(self, driver: webdriver.Chrome, url: str) -> None:
        self.driver = driver
        self.url = url

    def show(self, width: int, theme: str) -> None:
        """Set the width of the window and the preferred theme."""
        metrics = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 500}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
        features = [{"name": "prefers-color-scheme", "value": theme}]
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})

    def open(self, path: str) -> str:
        """Load a page; returns its text as a reader sees it."""
        self.driver.get(self.url + path)
        return self.text

    @property
    def text(self) -> str:
        """The visible text of the page."""
        (text,) = self._waiting().until(lambda driver: (driver.find_element(By.TAG_NAME, "body").text,))
        return str(text)

    def follow(self, words: str) -> str:
        """Click the link or button with these words, or this label."""
        self._leave_by(self._called(words).click)
        return self.text

    def press(self, words: str) -> None:
        """Click the link or button with these words, or this label, and stay on the page."""
        self._called(words).click()

    def tick(self, label: str) -> None:
        """Click the box with this label."""
        self.driver.find_element(By.CSS_SELECTOR, f"main input[aria-label='{label}']").click()

    def _called(self, words: str) -> Any:
        for element in self.driver.find_elements(By.CSS_SELECTOR, "main a, main button, header a, header button"):
            if words in (element.text.strip(), element.get_attribute("aria-label")):
                return element
        raise AssertionError(f"{self.driver.current_url} has no {words!r}:\n{self.text}")

    def fill(self, **values: str) -> None:
        """Type into the fields of the page, choose from its lists, and tick its boxes."""
        for name, value in values.items():
            field = self.driver.find_element(By.CSS_SELECTOR, f"main [name={name}]:not([type=hidden])")
            if field.tag_name == "select":
                Select(field).select_by_value(value)
            elif field.get_attribute("type") == "checkbox":
                if field.is_selected() != bool(value):
                    field.click()
            else:
                field.clear()
                field.send_keys(value)

    def submit(self, words: str, **values: str) -> str:
        """Fill the form of the page in and send it by its button."""
        self.fill(**values)
        return self.follow(words)

    def _leave_by(self, click: Any) -> None:
        """Click, and wait for the page that follows."""
        from selenium.webdriver.support.expected_conditions import staleness_of

        page = self.driver.find_element(By.TAG_NAME, "html")
        click()
        self._waiting().until(staleness_of(page))

    def _waiting(self) -> Any:
        """Asks again, also when the page is replaced while its elements are looked at."""
        from selenium.common.exceptions import WebDriverException
        from selenium.webdriver.support.ui import WebDriverWait

        return WebDriverWait(self.driver, 30, ignored_exceptions=[WebDriverException])

    def violations(self, *rules: str) -> list[str]:
        """What axe-core calls serious or critical about the page: of these rules, or of all."""
        self.driver.execute_script(axe_source())
        found = self.driver.execute_async_script(
            "const [options, done] = arguments;"
            "axe.run(document, options).then(done, (error) => done({error: String(error)}));",
            {"resultTypes": ["violations"], **({"runOnly": list(rules)} if rules else {})},
        )
        assert "error" not in found, found["error"]
        return [
            f"{each['id']}: {each['help']}: {each['nodes'][0]['html'][:200]}"
            for each in found["violations"]
            if each["impact"] in ("serious", "critical")
        ]

    def complaints(self) -> list[str]:
        """The errors that the browser has logged since the last call, such as refused scripts and styles.

        Pages that are errors on purpose are logged as well, and left out.
        """
        logged: Sequence[Any] = self.driver.get_log("browser")
        errors = [each["message"] for each in logged if each["level"] == "SEVERE"]
        return [each for each in errors if "Failed to load resource" not in each]

    def is_too_wide(self) -> bool:
        """Whether the page as a whole scrolls sideways."""
        script = "return document.documentElement.scrollWidth > document.documentElement.clientWidth"
        return bool(self.driver.execute_script(script))

    def photograph(self, file: Path, width: int) -> None:
        """Save a picture of the whole page."""
        size = self.driver.execute_cdp_cmd("Page.getLayoutMetrics", {})["cssContentSize"]
        clip = {"x": 0, "y": 0, "width": width, "height": min(size["height"], 1700), "scale": 1}
        made = self.driver.execute_cdp_cmd("Page.captureScreenshot", {"captureBeyondViewport": True, "clip": clip})
        file.write_bytes(base64.b64decode(made["data"]))


@contextmanager
def chromium(url: str) -> Iterator[Chromium]:
    """A browser until the block ends."""
    options = Options()
    options.binary_location = shutil.which("chromium") or ""
    for argument in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--hide-scrollbars"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(shutil.which("chromedriver")))
    try:
        driver.set_script_timeout(120)
        yield Chromium(driver, url)
    finally:
        driver.quit()
