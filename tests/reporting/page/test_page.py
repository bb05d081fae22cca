"""The page says what the verdict says, shows no record it must not, and runs nothing hostile."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest
from jinja2 import Environment
from tests.reporting import examples, training

from trilemma.reporting.page.page import front_page, read_templates, verdict_page, write_report
from trilemma.reporting.words.answer import answer
from trilemma.tuning.results.verdict import Verdict

HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(2)>\"'&{{7*7}}\u2028"


class Page(HTMLParser):
    """The elements of a page, the text of each script, and all other text."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: list[str] = []
        self.words: list[str] = []
        self._inside = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self._inside = tag
        if tag in ("td", "th", "dd", "p", "br"):
            self.words.append(" ")
        if tag == "script":
            self.scripts.append("")

    def handle_endtag(self, tag: str) -> None:
        self._inside = ""

    def handle_data(self, data: str) -> None:
        if self._inside == "script":
            self.scripts[-1] += data
        elif self._inside != "style":
            self.words.append(data)

    @property
    def text(self) -> str:
        return re.sub(r"\s+", " ", "".join(self.words))


@pytest.fixture(scope="module")
def verdict() -> Verdict:
    return examples.verdict()


def test_the_page_holds_the_verdict_value_by_value(verdict: Verdict) -> None:
    page = Page(verdict_page(verdict))
    data = json.loads(page.scripts[0])
    assert data["document"] == json.loads(json.dumps(verdict.as_json()))


def test_the_text_shows_the_verdicts_numbers(verdict: Verdict) -> None:
    text = Page(verdict_page(verdict)).text
    first = answer(verdict)
    for sentence in (
        first.headline.partition(": ")[2],
        *(said for _, said in first.facts),
        *first.not_covered,
        "0.224 [0.14, 0.313]",
        "93 %",
        "16 of 90 games",
        "map guessed right in 24 of 60 games at noise variance 0.000635",
        *verdict.limits,
        verdict.reproduce,
        verdict.federation.data_hash,
    ):
        assert sentence in text, sentence
    for candidate in verdict.candidates:
        assert candidate.statement in text
    for point in verdict.curves:
        assert point.leakage is None or f"{point.recovered}" in text


def test_digits_are_for_reading_and_the_exact_spec_for_deploying(verdict: Verdict) -> None:
    text = Page(verdict_page(verdict)).text
    assert text.count(str(examples.VALUE)) == 1
    assert f'parse_protection("randomization:variance={examples.VALUE}+' in text
    assert text.index("For experts") < text.index(str(examples.VALUE))
    assert not re.search(r"\d\.\d{8,}", text.replace(str(examples.VALUE), ""))


def test_no_odd_sentence_is_left(verdict: Verdict) -> None:
    for page in (
        verdict_page(verdict),
        front_page(examples.front()),
    ):
        text = Page(page).text
        for odd in (
            r"(?<![.\d])1 times",
            "away from none",
            "bind",
            "kappa",
            "Not needed",
            "units?",
        ):
            assert not re.search(rf"{odd}\b", text), odd


def test_the_certificate_in_words() -> None:
    text = Page(verdict_page(training.over_rounds())).text
    for sentence in (
        "38 22 of 100 46 of 100 2.6 of 100",
        "1,000 5 of 100 21 of 100 0.1 of 100",
        "the leakage is at most 0.3, reached at N = 7",
        "ε = 10.4 at δ = 1e-5",
        "wrongly names 1 % of those that were not, finds at most 15 of 100",
        "1 client may help the attacker",
    ):
        assert sentence in text, sentence
    assert "What is proved" not in Page(verdict_page(examples.verdict())).text


def test_every_shown_interval_is_one_of_the_verdict(verdict: Verdict) -> None:
    """Intervals as `value [low, high]`, to three digits, over the whole static text."""
    text = re.sub(
        r"points \[[^]]*\]|as long \[[^]]*\]|× \[[^]]*\]", "", Page(verdict_page(verdict)).text
    )
    shown = re.findall(r"(-?[\d.e-]+) \[(-?[\d.e-]+), (-?[\d.e-]+)\]", text)
    known = set()

    def gather(value: object) -> None:
        if isinstance(value, dict):
            if {"value", "low", "high"} <= value.keys():
                known.add(tuple(float(f"{value[end]:.3g}") for end in ("value", "low", "high")))
            for item in value.values():
                gather(item)
        elif isinstance(value, list):
            for item in value:
                gather(item)

    gather(verdict.as_json())
    assert len(shown) > 100
    for found in shown:
        near = [
            item
            for item in known
            if all(
                abs(a - float(b)) <= 1.001e-2 * abs(a) for a, b in zip(item, found, strict=True)
            )
        ]
        assert near, found


def test_nothing_is_fetched_and_nothing_foreign_runs(verdict: Verdict) -> None:
    page = Page(verdict_page(verdict, examples.gallery()))
    policies = [
        values["content"]
        for tag, values in page.tags
        if tag == "meta" and values.get("http-equiv") == "Content-Security-Policy"
    ]
    assert policies
    assert (policies[0] or "").startswith("default-src 'none'; img-src data:; style-src 'sha256-")
    assert "unsafe" not in (policies[0] or "")
    for tag, values in page.tags:
        assert not any(name.startswith("on") or name == "style" for name in values), (tag, values)
        for name in ("src", "href"):
            target = values.get(name)
            assert target is None or target.startswith(("#", "data:")), target
    assert len(page.scripts) == 2


def test_hostile_names_and_notes_stay_text(verdict: Verdict) -> None:
    hostile = replace(
        verdict,
        limits=(HOSTILE,),
        statement=HOSTILE,
        reproduce=HOSTILE,
        federation=replace(verdict.federation, scenario=HOSTILE, data_hash=HOSTILE),
        curves=tuple(replace(curve, note=HOSTILE, symbol=HOSTILE) for curve in verdict.curves),
        candidates=tuple(
            replace(candidate, statement=HOSTILE) for candidate in verdict.candidates
        ),
        versions={**verdict.versions, HOSTILE: HOSTILE},
    )
    page = Page(verdict_page(hostile))
    assert len(page.scripts) == 2
    assert not any(values.get("src") == "x" for _, values in page.tags)
    assert HOSTILE.strip() in "".join(page.words)
    assert json.loads(page.scripts[0])["document"]["limits"] == [HOSTILE]
    assert "49" not in page.text.split("Not covered")[1][:120], "no template is evaluated"
    front = examples.front(limits=(HOSTILE,), federation=hostile.federation)
    assert len(Page(front_page(front)).scripts) == 2


def test_pictures_only_where_records_may_be_shown(verdict: Verdict, tmp_path: Path) -> None:
    examples.gallery().save(tmp_path / "gallery.json")
    shown = write_report(verdict, tmp_path).read_text()
    assert shown.count("data:image/png") == 2 * 8 * (1 + 1 + 5 * 2)
    assert "What an attacker sees" in shown
    closed = replace(verdict, show_records=False)
    hidden = write_report(closed, tmp_path).read_text()
    assert "data:image" not in hidden
    assert "What an attacker sees" not in hidden
    (tmp_path / "gallery.json").write_text("{ nonsense")
    assert write_report(closed, tmp_path).read_text() == hidden, "it is not even read"


def test_the_page_is_made_of_the_verdict_in_hand(verdict: Verdict, tmp_path: Path) -> None:
    (tmp_path / "verdict.json").write_text("{ nonsense")
    page = write_report(verdict, tmp_path)
    assert page == tmp_path / "report.html"
    assert verdict.headline[1:] in page.read_text()


def test_a_page_is_small(verdict: Verdict) -> None:
    assert len(verdict.curves) >= 4 * 20
    assert len(verdict_page(verdict, examples.gallery()).encode()) < 300_000


def test_a_verdict_without_curves_has_nothing_to_explore(verdict: Verdict) -> None:
    page = Page(verdict_page(replace(verdict, curves=())))
    assert "Explore" not in page.text
    assert not any(tag == "input" for tag, _ in page.tags)
    assert "All protections that were tried" in page.text


def test_a_verdict_that_chose_nothing(verdict: Verdict) -> None:
    nothing = replace(
        verdict, protection=None, chosen=None, leakage=None, advice="Try more clients.",
        candidates=tuple(
            replace(e, rank=None, tied=False, costs=None) for e in verdict.candidates
        ),
    )  # fmt: skip
    text = Page(verdict_page(nothing)).text
    assert "No: of 6 protections that were tried, none was shown" in text
    assert f"asked for {verdict.headline}" in text
    assert "what helps Try more clients." in text
    assert "trilemma deploy" not in text
    assert "The exact protection" not in text.split("For experts")[0]


def test_a_verdict_that_rests_on_the_key(verdict: Verdict) -> None:
    text = Page(
        verdict_page(replace(verdict, chosen="paillier", basis="cryptographic", leakage=None))
    ).text
    assert "Yes, while the server does not hold the key" in text
    assert "none without the key" in text


def test_the_page_of_a_front() -> None:
    front = examples.front()
    page = Page(front_page(front))
    assert json.loads(page.scripts[0])["document"] == json.loads(json.dumps(front.as_json()))
    assert f"{len(front.front)} of {len(front.points)} measured points" in page.text
    assert "estimates, no verdict" in page.text
    for sentence in front.limits:
        assert sentence in page.text


def test_templates_that_were_read_early_are_not_compiled_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    read_templates()

    def refused(*_: object, **__: object) -> None:
        raise AssertionError("compiled again")

    monkeypatch.setattr(Environment, "compile", refused)
    assert Page(verdict_page(examples.verdict())).scripts
    assert Page(front_page(examples.front())).scripts
