"""The whole trial of a folder of results."""

from __future__ import annotations

import pandas as pd
import pytest
from claim_rows import claim

from bench import cited
from bench.cited import BUNDLED, Cited
from bench.claims import gather
from bench.claims.claim import Estimate
from bench.reading.strict import BadFile
from bench.spec import BadInput


def test_parts_are_gathered_by_run():
    readings = pd.DataFrame(
        [
            {"run_id": "a", "meter": "parts", "scope": "weights", "value": 7.0},
            {"run_id": "a", "meter": "parts", "scope": "logits", "value": 3.0},
            {"run_id": "b", "meter": "nvml", "scope": "gpu-board", "value": 300.0},
        ]
    )
    assert gather.parts_of(readings) == {"a": {"weights": 7.0, "logits": 3.0}}
    assert gather.parts_of(pd.DataFrame()) == {}


def test_each_claim_is_judged_in_order():
    claims = (claim("ratio", expected=(2, 4)), claim("fit", fits="yes"))
    made = gather.judged(claims, (lambda each: [Estimate(tier="measured", what="w", who="x", value=1.0)],))
    assert [each.claim for each in made] == list(claims)


def test_a_file_of_ones_own_adds_claims(tmp_path):
    own = tmp_path / "own.toml"
    own.write_text(
        '[[claim]]\nid = "my.claim"\nkind = "fit"\nfits = "no"\nmodels = ["14b"]\nmethods = ["lora"]\n'
        'sides = [{machine = "pc-rtx-4090"}]\nstatement = {en = "No.", fr = "Non.", ro = "Nu."}\n'
    )
    made = gather.trial(tmp_path, own).judged
    assert made[-1].claim.id == "my.claim"
    assert made[-1].verdict == "predicted-to-hold"


def test_whatever_judges_nothing_has_a_reason_in_the_whole_catalogue():
    """On the rows and runs that come with the project."""
    made = gather.trial(BUNDLED).judged
    assert len(made) == 53
    assert [(each.claim.id, other.evidence) for each in made for other in each.others if not other.refused] == []
    shown = {row_id for each in made for other in (*each.estimates, *each.others) for row_id in other.evidence}
    assert {row_id for each in made for row_id in each.claim.cites} <= shown
    ids = {row.id for row in cited.read(BUNDLED)}
    judging = {row_id for each in made for one in each.estimates for row_id in one.evidence} & ids
    assert judging == set(), "no row of these states what the claims ask, of our stacks and on these machines"


def test_rows_of_ones_own_results_may_be_cited(tmp_path):
    own = tmp_path / "own.toml"
    own.write_text(
        '[[claim]]\nid = "my.claim"\nkind = "fit"\nfits = "no"\nmodels = ["14b"]\nmethods = ["lora"]\ncites = ["mine-1"]\n'
        'sides = [{machine = "pc-rtx-4090"}]\nstatement = {en = "No.", fr = "Non.", ro = "Nu."}\n'
    )
    with pytest.raises(BadFile, match=r'own.toml: my.claim.cites: no published row "mine-1"'):
        gather.trial(tmp_path, own)
    cited.write(tmp_path, "mine", [Cited(id="mine-1", source="my log", method="LoRA", outcome="oom")])
    (shown,) = [each for each in gather.trial(tmp_path, own).judged[-1].others if each.tier == "published"]
    assert (shown.evidence, shown.source, shown.value) == (("mine-1",), "my log", 0.0)


def test_a_folder_that_is_not_there_is_told(tmp_path):
    with pytest.raises(BadInput, match="is no folder"):
        gather.trial(tmp_path / "typo")
