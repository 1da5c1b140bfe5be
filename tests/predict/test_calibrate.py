"""The whole command on the committed rows: what it writes, and that writing again changes nothing."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner

from bench import cited
from bench.cli import cli
from bench.predict import calibrate as module
from bench.predict.calibrate import calibrate
from bench.predict.fractions import CALIBRATION
from bench.spec import BadInput

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.slow
def test_the_committed_calibration_and_card_are_what_the_rows_and_runs_of_this_folder_make(tmp_path: Path) -> None:
    """Red after runs of one's own, until `wingspan calibrate` has taken them in."""
    for name in ("published", "runs"):
        shutil.copytree(ROOT / "results" / name, tmp_path / "results" / name)
    path = tmp_path / "calibration.toml"
    shutil.copy(CALIBRATION, path)
    done = calibrate(tmp_path / "results", tmp_path / "reports", calibration=path)
    assert path.read_bytes() == CALIBRATION.read_bytes()
    assert (tmp_path / "reports" / "prediction.md").read_text() == (ROOT / "reports" / "prediction.md").read_text()
    found = done.to_json()
    assert found["peaks_stated"]["mape"] <= 0.10
    assert found["rates_stated"]["mape"] <= 0.30


def few(results: Path, count: int = 4) -> None:
    """Some rows of one source."""
    rows = [row for row in cited.read(ROOT / "results") if row.id.startswith("fms-00")][:count]
    cited.write(results, "few", rows)


def test_a_table_is_added_scored_and_written_down(tmp_path: Path) -> None:
    few(tmp_path / "results")
    path = tmp_path / "calibration.toml"
    done = calibrate(tmp_path / "results", tmp_path / "reports", calibration=path)
    assert done.written == (path, tmp_path / "reports" / "prediction.md")
    assert "[speed.hf" in path.read_text()
    assert done.to_json()["peaks_stated"]["count"] == 3


HEAD = "id,source,date,hardware,memory_gb,framework,framework_version,model,params_b,method,lora_rank,lora_targets,quant_bits"
TAIL = "optimizer,batch,grad_accum,seq_len,grad_checkpointing,dtype,peak_mem_bytes,meter,mem_how,tokens_per_s,it_per_s,watts"
MORE = f"""{HEAD},{TAIL},outcome,notes
new-1,x/y,,2x 3090,,HF PEFT+TRL,,x/Qwen2.5-7B-bnb-4bit,7.6,qlora,16,all,,paged_adamw_8bit,1,4,64,yes,,9e9,reserved,,900,,,ok,DDP
new-2,x/y,2025-01,RTX 4090,,axolotl,,google/gemma-2-9b,9.2,LoRA,8,"q,v",16,adafactor,1,,512,yes,bfloat16,21e9,unstated,,,,,OK,
new-3,x/y,2025-01,RTX 4090,,transformers,,Qwen2.5-14B,14.8,lora,8,"q,v",16,adamw_torch_fused,1,,512,yes,bf16,,,,,,,oom,
new-4,x/y,2025-01,Mystery 1,,Trainer of mine,,no model,,,,,,,,,,,,,,,,,,,
"""


def test_further_rows_are_scored_and_the_useless_are_kept_with_a_reason(tmp_path: Path) -> None:
    few(tmp_path / "results")
    (tmp_path / "more.csv").write_text(MORE)
    for _ in range(2):
        done = calibrate(tmp_path / "results", tmp_path / "reports", add=tmp_path / "more.csv", calibration=tmp_path / "c.toml")
    assert {row.id for row in cited.read(tmp_path / "results")} >= {"new-1", "new-2", "new-3", "new-4"}
    assert "no rules here" in done.card.left_out["new-4"]
    assert {each.seen.id for each in done.card.peaks} >= {"new-1", "new-2"}
    assert {each.seen.id: each.seen.tokens_per_s for each in done.card.rates}["new-1"] == 450
    assert any(each.seen.id == "new-3" and not each.ran for each in done.card.fits)


def test_scoring_alone_leaves_the_calibration(tmp_path: Path) -> None:
    few(tmp_path / "results")
    path = tmp_path / "calibration.toml"
    done = calibrate(tmp_path / "results", tmp_path / "reports", keep=False, calibration=path)
    assert not path.exists()
    assert done.written == (tmp_path / "reports" / "prediction.md",)


def test_the_command_says_where_and_refuses_a_bad_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    few(tmp_path / "results", 2)
    options = ["--results", str(tmp_path / "results"), "--out", str(tmp_path / "reports"), "--score-only"]
    found = CliRunner().invoke(cli, ["calibrate", *options, "--json"])
    assert found.exit_code == 0
    assert json.loads(found.stdout)["written"] == [str(tmp_path / "reports" / module.REPORT)]
    table = tmp_path / "bad.csv"
    table.write_text("id,model\n")
    refused = CliRunner().invoke(cli, ["calibrate", *options, "--add", str(table)])
    assert refused.exit_code == 2
    assert "column missing" in refused.output


def test_what_was_learnt_is_not_forgotten_for_want_of_a_table(tmp_path: Path) -> None:
    """A results folder of one's own has no published rows: to fit on it would wipe out what every prediction rests on."""
    kept = tmp_path / "calibration.toml"
    kept.write_text("# by hand\n")
    with pytest.raises(BadInput, match="holds no table"):
        module.calibrate(tmp_path / "results", tmp_path / "reports", calibration=kept)
    assert kept.read_text() == "# by hand\n"
    assert module.calibrate(tmp_path / "results", tmp_path / "reports", keep=False, calibration=kept).card.peaks == ()
