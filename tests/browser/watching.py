"""A page that is watched for what it must not do."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page


class Watched:
    """A page, and what it did that it should not: errors, warnings, requests, dialogs."""

    def __init__(
        self,
        browser: Browser,
        path: Path,
        *,
        width: int = 1280,
        scheme: Any = "light",
        at: str = "",
    ) -> None:
        self.misdeeds: list[str] = []
        self.page: Page = browser.new_page(
            viewport={"width": width, "height": 844}, color_scheme=scheme
        )
        self.page.on("console", lambda message: self.misdeeds.append(message.text))
        self.page.on("pageerror", lambda error: self.misdeeds.append(str(error)))
        self.page.on("dialog", lambda dialog: self.misdeeds.append(dialog.message))
        self.url = path.as_uri()
        self.page.on("request", lambda request: self._requested(request.url))
        self.page.goto(self.url + at)

    def _requested(self, url: str) -> None:
        if url.split("#")[0] != self.url:
            self.misdeeds.append(f"request {url}")

    def set(self, **stops: int) -> None:
        for name, stop in stops.items():
            self.page.locator(f"#{name}").evaluate(
                "(slider, stop) => { slider.value = stop;"
                " slider.dispatchEvent(new Event('input', { bubbles: true })); }",
                stop,
            )

    def shown(self) -> dict[str, str]:
        found: dict[str, str] = self.page.locator("#recommendation").evaluate(
            "box => ({ ...box.dataset })"
        )
        return found

    def text(self, selector: str) -> str:
        return self.page.locator(selector).inner_text()

    def close(self) -> None:
        self.page.close()
        assert self.misdeeds == []
