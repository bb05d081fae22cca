from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy import stats

from trilemma.errors import InvalidInput
from trilemma.learning import LocalTraining, draw_rows, sampling, stack_rows

POISSON = LocalTraining(batch=4, sampling="poisson")
STEPS = LocalTraining("fedavg", steps=3, batch=4, sampling="poisson")


def drawn(setting: LocalTraining, n: int, count: int, seed: int = 0) -> np.ndarray:
    """Who took part in `count` draws: [count, steps, n]."""
    draw, taken = np.random.default_rng(seed), np.zeros((count, setting.steps, n))
    for number in range(count):
        rows, present = draw_rows(setting, n, draw)
        assert present is not None
        mask = present.reshape(setting.steps, -1)
        width = int((mask > 0).any(0).sum())
        assert not mask[:, width:].any(), "padding comes last"
        assert len(set(rows[:width].tolist())) == width, "no record is drawn twice"
        assert set(rows[width:].tolist()) <= {0}
        taken[number][:, rows[:width].numpy()] = mask[:, :width].numpy()
    return taken


@pytest.mark.parametrize("setting", [POISSON, STEPS], ids=["one step", "three steps"])
def test_every_record_joins_every_step_by_itself(setting: LocalTraining) -> None:
    n, count = 20, 6000
    taken = drawn(setting, n, count)
    rate = 4 / n
    sd = np.sqrt(rate * (1 - rate) / count)
    assert np.abs(taken.mean(0) - rate).max() < 4.5 * sd
    # The number in a step is binomial,
    sizes = taken[:, 0].sum(1).astype(int)
    distribution = stats.binom(n, rate)
    cells = np.array([(sizes == k).sum() for k in range(9)] + [(sizes >= 9).sum()])
    shares = np.array([distribution.pmf(k) for k in range(9)] + [distribution.sf(8)])
    assert stats.chisquare(cells, count * shares).pvalue > 1e-3
    # and no pair of records, in one step or in two, goes together.
    flat = taken.reshape(count, -1)
    together = np.corrcoef(flat.T)
    np.fill_diagonal(together, 0.0)
    assert np.abs(together).max() < 5.0 / np.sqrt(count)


def test_the_width_is_the_tail_of_the_binomial() -> None:
    for setting, rate in ((POISSON, 4 / 150), (STEPS, 1 - (1 - 4 / 150) ** 3)):
        rows, present = draw_rows(setting, 150, np.random.default_rng(1))
        assert present is not None
        assert rows.shape == present.shape[-1:] == (stats.binom.isf(1e-9, 150, rate),)


def test_the_full_batch_takes_part_whole() -> None:
    rows, present = draw_rows(POISSON, 4, np.random.default_rng(2))
    assert rows.tolist() == [0, 1, 2, 3]
    assert present is not None
    assert present.tolist() == [1.0] * 4


def test_a_draw_beyond_the_width_grows_and_keeps_every_record(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sampling, "_width", lambda n, share: 1)
    taken = drawn(POISSON, 20, 300)
    assert taken.sum(2).max() > 5
    assert taken.mean() == pytest.approx(0.2, abs=0.02)


def test_fixed_sampling_is_a_choice_without_replacement() -> None:
    setting = LocalTraining("fedavg", steps=2, batch=3, records=6)
    rows, present = draw_rows(setting, 9, np.random.default_rng(3))
    assert present is None
    assert rows.tolist() == np.random.default_rng(3).choice(9, 6, replace=False).tolist()


@pytest.mark.parametrize("setting", [POISSON, STEPS], ids=["one step", "three steps"])
def test_draws_of_unlike_clients_stack_without_loss(setting: LocalTraining) -> None:
    draw = np.random.default_rng(4)
    parts = [draw_rows(setting, n, draw) for n in (5, 150, 40)]
    rows, present = stack_rows(parts)
    assert present is not None
    assert rows.shape == (3, rows.shape[1])
    assert present.shape == (3, *((3,) if setting.steps == 3 else ()), rows.shape[1])
    for k, (own, mask) in enumerate(parts):
        assert mask is not None
        taking, stacked = mask.reshape(setting.steps, -1), present[k].reshape(setting.steps, -1)
        for step in range(setting.steps):
            assert rows[k][stacked[step] > 0].tolist() == own[taking[step] > 0].tolist()
        assert set(rows[k].tolist()) <= set(own.tolist()), "padding is a row of the client's own"
    taking_part = (present.reshape(-1, rows.shape[1]) > 0).any(0)
    assert bool(taking_part.all()), "no column is padding for all"


def test_draws_that_are_all_empty_stack() -> None:
    nobody = (torch.zeros(3, dtype=torch.int64), torch.zeros(3))
    rows, present = stack_rows([nobody])
    assert present is not None
    assert (rows.tolist(), present.tolist()) == ([[0]], [[0.0]])


def test_too_few_records_are_refused() -> None:
    for setting in (POISSON, LocalTraining(batch=4)):
        with pytest.raises(InvalidInput, match="3 records cannot give 4 to an update"):
            draw_rows(setting, 3, np.random.default_rng(0))
