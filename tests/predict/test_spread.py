"""The calibration file: priors by hand, fitted values in their place."""

import pytest

from bench.predict.spread import LINE, Spread, prior_spreads, stored_spreads
from bench.reading.strict import BadFile

PRIOR = '[prior.hf.peak]\nspread = 0.03\nreason = "traced"\n[prior.mlx.peak]\nspread = 0.1\nreason = "simulated"\n'
FITTED = '[memory.hf."peak"]\nfactor = 1.1\nspread = 0.08\nrows = 3\nsources = 2\n'


@pytest.fixture
def file(tmp_path):
    def written(text):
        path = tmp_path / f"calibration-{len(text)}.toml"
        path.write_text(text)
        return path

    return written


def test_what_was_fitted_takes_the_priors_place(file):
    path = file(PRIOR + FITTED)
    assert stored_spreads(path) == {("hf", "peak"): Spread(1.1, 0.08), ("mlx", "peak"): Spread(1.0, 0.1)}
    assert prior_spreads(path)["hf", "peak"] == Spread(1.0, 0.03)


def test_a_missing_file_leaves_nothing(tmp_path):
    assert stored_spreads(tmp_path / "none.toml") == {}


def test_speeds_beside_it_are_nobodys_fault(file):
    assert stored_spreads(file(PRIOR + '[speed.hf."any"]\nmatrix = 0.5\n'))


def test_a_spread_without_a_reason_is_refused_by_file_and_key(file):
    with pytest.raises(BadFile, match=r"calibration-.*prior\.hf\.peak\.reason"):
        stored_spreads(file("[prior.hf.peak]\nspread = 0.03\n"))


def test_the_files_own_priors_name_every_stack():
    assert {("hf", "peak"), ("hf", "held"), ("mlx", "peak"), ("mlx", "held"), ("unsloth", "peak")} <= prior_spreads().keys()


def test_calibrating_looks_at_no_fitted_value_so_that_it_can_mend_one(file):
    broken = file(PRIOR + LINE + "\n" + FITTED.replace("1.1", "-1"))
    with pytest.raises(BadFile, match="run `wingspan calibrate`, which writes it anew"):
        stored_spreads(broken)
    assert prior_spreads(broken)["hf", "peak"] == Spread(1.0, 0.03)
    with pytest.raises(BadFile, match="mend what is written by hand"):
        prior_spreads(file("[prior\n" + LINE))
