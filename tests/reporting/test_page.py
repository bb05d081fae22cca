"""The page says what the verdict says, shows no record it must not, and runs nothing hostile."""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest
from tests.reporting import examples

from trilemma.errors import InvalidInput
from trilemma.reporting.page import front_page, verdict_page, write_report
from trilemma.tuning.results.gallery import Gallery
from trilemma.tuning.results.verdict import Verdict
from trilemma.work.files import write_json

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
    for sentence in (
        "Use noise of variance 0.000127.",
        "0.218 [0.167, 0.275], budget 0.3",
        "From 17 of 185 fresh protected updates",
        "about 1 in 11",
        "Without protection: from 30 of 30.",
        "The measurements cannot tell it from compression.",
        "92.7 % → 92.6 %",
        "1.01 × as long",
        *verdict.limits,
        verdict.reproduce,
        verdict.federation.data_hash,
        "4.81e-18",
        "1 [0.855, 1], the leakage without protection",
        "41500, smoothed",
        "0.00267 [0.00047, 0.086]",
    ):
        assert sentence in text, sentence
    for candidate in verdict.candidates:
        assert candidate.statement in text
    for point in verdict.curves:
        assert point.leakage is None or f"{point.recovered}" in text


def test_every_shown_interval_is_one_of_the_verdict(verdict: Verdict) -> None:
    """Intervals as `value [low, high]`, to three digits, over the whole static text."""
    shown = re.findall(
        r"(-?[\d.e-]+) \[(-?[\d.e-]+), (-?[\d.e-]+)\]", Page(verdict_page(verdict)).text
    )
    known = set()

    def gather(value: object) -> None:
        if isinstance(value, dict):
            if {"value", "low", "high"} <= value.keys():
                known.add(tuple(float(f"{value[end]:.3g}") for end in ("value", "low", "high")))
            for each in value.values():
                gather(each)
        elif isinstance(value, list):
            for each in value:
                gather(each)

    gather(verdict.as_json())
    kappa = verdict.federation.kappa
    assert kappa is not None
    known.add((float(f"{2 / 750:.3g}"), float(f"{kappa.low:.3g}"), float(f"{kappa.high:.3g}")))
    assert len(shown) > 100
    for found in shown:
        near = [
            each
            for each in known
            if all(
                abs(a - float(b)) <= 1.001e-2 * abs(a) for a, b in zip(each, found, strict=True)
            )
        ]
        assert near, found


def pictures(folder: Path) -> Gallery:
    write_json(folder / "gallery.json", examples.gallery())
    return Gallery.load(folder / "gallery.json")


def test_nothing_is_fetched_and_nothing_foreign_runs(verdict: Verdict, tmp_path: Path) -> None:
    page = Page(verdict_page(verdict, pictures(tmp_path)))
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
        curves=tuple(replace(each, note=HOSTILE, symbol=HOSTILE) for each in verdict.curves),
        candidates=tuple(replace(each, statement=HOSTILE) for each in verdict.candidates),
        versions={**verdict.versions, HOSTILE: HOSTILE},
    )
    page = Page(verdict_page(hostile))
    assert len(page.scripts) == 2
    assert not any(values.get("src") == "x" for _, values in page.tags)
    assert HOSTILE.strip() in "".join(page.words)
    assert json.loads(page.scripts[0])["document"]["limits"] == [HOSTILE]
    assert "49" not in page.text.split("What is not covered")[1][:120], "no template is evaluated"
    front = examples.front(limits=(HOSTILE,), federation=hostile.federation)
    assert len(Page(front_page(front)).scripts) == 2


def test_pictures_only_where_records_may_be_shown(verdict: Verdict, tmp_path: Path) -> None:
    write_json(tmp_path / "gallery.json", examples.gallery())
    verdict.save(tmp_path / "verdict.json")
    shown = write_report(tmp_path).read_text()
    assert shown.count("data:image/png") == 4 * 6
    assert "What the attacker sees" in shown
    replace(verdict, show_records=False).save(tmp_path / "verdict.json")
    hidden = write_report(tmp_path).read_text()
    assert "data:image" not in hidden
    assert "What the attacker sees" not in hidden
    (tmp_path / "gallery.json").write_text("{ nonsense")
    assert write_report(tmp_path).read_text() == hidden, "it is not even read"


def test_a_page_is_small(verdict: Verdict, tmp_path: Path) -> None:
    assert len(verdict.curves) >= 4 * 20
    assert len(verdict_page(verdict, pictures(tmp_path)).encode()) < 300_000


def test_a_verdict_without_curves_says_so(verdict: Verdict) -> None:
    page = Page(verdict_page(replace(verdict, curves=(), predictions=())))
    assert "nothing to explore" in page.text
    assert not any(tag == "input" for tag, _ in page.tags)
    assert "All candidates, ranked" in page.text


def test_a_verdict_that_chose_nothing(verdict: Verdict) -> None:
    nothing = replace(
        verdict, protection=None, chosen=None, leakage=None, advice="Try more clients.",
        candidates=tuple(replace(e, rank=None, tied=False) for e in verdict.candidates),
    )  # fmt: skip
    text = Page(verdict_page(nothing)).text
    assert "Nothing was shown to keep the budget of 0.3." in text
    assert "Try more clients." in text
    assert "To deploy" not in text


def test_a_verdict_that_rests_on_the_key(verdict: Verdict) -> None:
    text = Page(
        verdict_page(replace(verdict, chosen="paillier", basis="cryptographic", leakage=None))
    ).text
    assert "Use Paillier encryption (the server reads nothing)." in text
    assert "nothing without the key" in text


def test_the_page_of_a_front() -> None:
    front = examples.front()
    page = Page(front_page(front))
    assert json.loads(page.scripts[0])["document"] == json.loads(json.dumps(front.as_json()))
    assert f"{len(front.front)} of {len(front.points)} measured points" in page.text
    assert "estimates, no verdict" in page.text
    for sentence in front.limits:
        assert sentence in page.text


@pytest.mark.parametrize("kept", [0.0, 0.3, 0.999])
@pytest.mark.parametrize("name", ["verdict.json", "pareto.json"])
def test_a_truncated_file_is_one_sentence(name: str, kept: float, tmp_path: Path) -> None:
    made = examples.verdict() if name == "verdict.json" else examples.front()
    made.save(tmp_path / name)
    text = (tmp_path / name).read_text()
    (tmp_path / name).write_text(text[: int(kept * len(text))])
    with pytest.raises(InvalidInput, match="not a whole JSON file") as caught:
        write_report(tmp_path)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (("leakage",), "much"),
        (("curves", 3, "leakage", "high"), None),
        (("curves", 3, "protection"), "invisibility:cloak=1"),
        (("candidates", 0, "protection"), "nonsense"),
        (("problem", "budget"), 7),
        (("limits",), 3),
        (("chosen",), "nobody"),
        (("curves", 3, "leakage", "value"), math.nan),
        (("predictions", 0, "leakage"), math.inf),
        (("points", 2, "units"), "few"),
        (("knee",), 99),
    ],
)
def test_a_hand_edited_file_is_one_sentence(
    place: tuple[str | int, ...], value: object, tmp_path: Path
) -> None:
    front = place[0] in ("points", "knee")
    made = examples.front() if front else examples.verdict()
    document = json.loads(json.dumps(made.as_json()))
    there = document
    for step in place[:-1]:
        there = there[step]
    there[place[-1]] = value
    (tmp_path / "edited.json").write_text(json.dumps(document))
    with pytest.raises(InvalidInput) as caught:
        write_report(tmp_path / "edited.json")
    assert "\n" not in str(caught.value)


def test_a_verdict_of_an_older_version_names_the_command_that_upgrades_it(tmp_path: Path) -> None:
    document = examples.verdict().as_json()
    for new in ("curves", "predictions", "show_records", "reproduce"):
        del document[new]
    write_json(tmp_path / "verdict.json", {**document, "schema_version": 1})
    with pytest.raises(InvalidInput, match=f"trilemma tune command again with --out {tmp_path}"):
        write_report(tmp_path)


def test_a_folder_without_a_result_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="neither verdict"):
        write_report(tmp_path)
    with pytest.raises(InvalidInput, match="cannot read"):
        write_report(tmp_path / "nowhere.json")


def test_a_broken_gallery_is_one_sentence(tmp_path: Path) -> None:
    examples.verdict().save(tmp_path / "verdict.json")
    gallery = examples.gallery()
    gallery["originals"][0][0] = 256
    for broken in ("{", json.dumps(gallery)):
        (tmp_path / "gallery.json").write_text(broken)
        with pytest.raises(InvalidInput, match="gallery"):
            write_report(tmp_path)
