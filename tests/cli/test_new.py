"""`trilemma new` as a user meets it."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.cli.running import here


def test_it_says_what_it_wrote_and_what_comes_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "mine"
    code, out, _ = here(monkeypatch, capsys, "new", str(folder), "--kind", "text")
    assert code == 0
    assert sorted(path.name for path in folder.iterdir()) == ["my_federation.py", "trilemma.toml"]
    assert f"wrote {folder / 'my_federation.py'}" in out
    assert f"cd {folder}\n  trilemma check" in out
    code, out, err = here(monkeypatch, capsys, "new", str(folder))
    assert (code, out) == (2, "")
    assert "is there already; name another folder." in err
    code, out, err = here(monkeypatch, capsys, "new", "x" * 300)
    assert (code, out, len(err.splitlines())) == (2, "", 1)
    assert "(File name too long); name another folder." in err
