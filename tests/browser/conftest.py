from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

from tests.support.required import skip_without

SCREENSHOTS = "FEDCOMP_SCREENSHOTS"
ROOT = Path(__file__).resolve().parents[2]
NewPage = Callable[..., Page]
Shoot = Callable[[Page, str], None]


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """The machine's own Chromium; Playwright's would be a download."""
    found = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if found is None:
        skip_without("browser", "no chromium is on the PATH (Debian: apt-get install chromium)")
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=found, args=["--no-sandbox"])
        yield opened
        opened.close()


@pytest.fixture
def new_page(browser: Browser) -> Iterator[NewPage]:
    """Opens pages, and fails the test where one of them logs an error or asks another host for anything."""
    wrong: list[str] = []
    contexts = []

    def open_page(base: str, *, width: int = 1440, height: int = 900, scheme: str = "light") -> Page:
        context = browser.new_context(
            base_url=base,
            viewport={"width": width, "height": height},
            color_scheme="dark" if scheme == "dark" else "light",
        )
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(20_000)
        page.on("console", lambda message: wrong.append(message.text) if message.type == "error" else None)
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on(
            "request",
            lambda sent: None if sent.url.startswith((f"{base}/", "data:", "blob:")) else wrong.append(sent.url),
        )
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert wrong == []


@pytest.fixture
def shoot() -> Shoot:
    """Keeps a picture of a page in build/screenshots, or in the folder that FEDCOMP_SCREENSHOTS names."""
    folder = Path(os.environ.get(SCREENSHOTS) or ROOT / "build" / "screenshots")
    folder.mkdir(parents=True, exist_ok=True)

    def take(page: Page, name: str) -> None:
        page.screenshot(path=folder / f"{name}.png", full_page=True)

    return take
