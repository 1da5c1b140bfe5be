"""The calibration's shares, and what stands for those it lacks."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.predict.fractions import ASSUMED, Fractions, fractions_for, stored_fractions
from bench.reading.strict import BadFile

A, B, C = (Fractions(matrix=share, bandwidth=0.8, spread=0.1, rows=1) for share in (0.1, 0.2, 0.3))


def test_the_nearest_that_is_known() -> None:
    known = {("hf", "ada"): A, ("hf", "any"): B, ("any", "any"): C}
    assert fractions_for(known, "hf", "ada") is A
    assert fractions_for(known, "hf", "hopper") is B
    assert fractions_for(known, "hf", None) is B
    assert fractions_for(known, "mlx", "apple") is C
    assert fractions_for({}, "mlx", "apple") is ASSUMED


def test_the_file_beside_its_other_tables(tmp_path: Path) -> None:
    path = tmp_path / "c.toml"
    assert stored_fractions(path) == {}
    other = tmp_path / "d.toml"
    other.write_text('[memory.hf.peak]\nfactor = 1.0\n[speed.hf."ada"]\nmatrix = 0.1\nbandwidth = 0.8\nspread = 0.1\nrows = 1\n')
    assert stored_fractions(other) == {("hf", "ada"): A}


def test_a_share_that_cannot_be_is_named(tmp_path: Path) -> None:
    path = tmp_path / "c.toml"
    path.write_text("[speed.hf.ada]\nmatrix = 40\nbandwidth = 0.8\nspread = 0.1\n")
    with pytest.raises(BadFile, match=r"speed\.hf\.ada\.matrix"):
        stored_fractions(path)
