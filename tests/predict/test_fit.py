"""The calibration file: hand-written above the line, fitted below."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
from observed import observation, ten_gb

from bench import cited
from bench.cited import Cited
from bench.predict.fit import LINE, Fitted, fitted, gather, without, write
from bench.predict.fit_memory import Correction, residuals
from bench.predict.fit_power import power_rows
from bench.predict.fit_speed import Seen, shares
from bench.predict.fractions import Fractions, stored_fractions, stored_load
from bench.predict.spread import Spread, stored_spreads

LEARNT = Fitted(
    {
        ("hf", "peak"): Correction(factor=1.1, spread=0.05, rows=4, sources=2),
        ("hf", "peak, open conditions"): Correction(factor=2.0, spread=0.5, rows=4, sources=2),
    },
    {("hf", "ada"): Fractions(matrix=0.6, bandwidth=0.8, spread=0.2, rows=3, sources=2)},
)
PRIOR = '# Why.\n[prior.hf.held]\nspread = 0.3\nreason = "by hand"\n'


def test_what_is_written_is_what_is_read(tmp_path: Path) -> None:
    path = tmp_path / "c.toml"
    path.write_text(PRIOR)
    write(path, LEARNT)
    assert stored_fractions(path) == LEARNT.speed
    assert stored_spreads(path) == {("hf", "held"): Spread(1.0, 0.3), ("hf", "peak"): Spread(1.1, 0.05)}


def test_what_stands_above_the_line_stays_and_below_it_nothing_old_does(tmp_path: Path) -> None:
    path = tmp_path / "c.toml"
    path.write_text(PRIOR)
    write(path, LEARNT)
    first = path.read_text()
    write(path, LEARNT)
    assert path.read_text() == first
    write(path, Fitted({}, {}))
    assert path.read_text() == f"{PRIOR}\n{LINE}\n"
    assert tomllib.loads(path.read_text())["prior"]


def test_a_source_is_left_out_of_what_predicts_it() -> None:
    rows = [observation(peak_bytes=20 * 10**9), observation(id="b-1", family="b", peak_bytes=10 * 10**9)]
    found = residuals(rows, ten_gb)
    assert fitted(found, []).memory["hf", "peak"].factor == pytest.approx(2 ** (1 / 4), rel=1e-3)
    assert without("a", found, []).memory["hf", "peak"].factor == pytest.approx(1.0)
    rates = shares([observation(tokens_per_s=3000.0)])
    assert ("hf", "ampere") not in without("a", [], rates).speed


def test_rows_that_prove_nothing_are_named_with_the_reason(tmp_path: Path) -> None:
    cited.write(tmp_path, "t", [Cited(id="v-1", source="s", meter="vendor_claim", peak_mem_bytes=10**9)])
    evidence = gather(tmp_path)
    assert evidence.observations == ()
    assert evidence.left_out == {"v-1": "a vendor's claim, not a measurement"}


def test_nonsense_that_was_learnt_can_still_be_read_back(tmp_path: Path) -> None:
    """Rows in wrong units, which anyone may add, must not make the file unreadable for everyone."""
    path = tmp_path / "c.toml"
    odd = [
        observation(id=f"{name}-1", family=name, peak_bytes=peak) for name, peak in (("a", 10**6), ("b", 10**15), ("c", 10**15))
    ]
    slow = [Seen(("hf", "ada"), name, value) for name, value in (("a", -6.9), ("b", -6.9), ("c", 0.0))]
    watts = [
        Cited(id=f"{name}-1", source="s", hardware="RTX 4090", method="LoRA", watts=w) for name, w in (("a", 1e-6), ("b", 9e6))
    ]
    write(path, fitted(residuals(odd, ten_gb), slow, power_rows(watts)[0]))
    assert stored_spreads(path)["hf", "peak"].spread <= 3
    assert stored_fractions(path)["hf", "ada"].matrix > 0
    assert 0 < stored_load(path).share <= 1
