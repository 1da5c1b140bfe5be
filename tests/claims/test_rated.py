"""Ratings of machines as evidence, and what a copy reached."""

from __future__ import annotations

import json

from claim_rows import MAC, claim

from bench.claims import rated

BANDWIDTH = claim("value", quantity="memory_bytes_per_s", expected=(8e11, 8e11), unit="GB/s", sides=(MAC,))


def test_a_rating_is_published_with_its_source(tmp_path):
    (found,) = rated.estimates(BANDWIDTH, tmp_path)
    assert (found.tier, found.value) == ("published", 819e9)
    assert "819" in found.source


def test_a_copy_on_the_machine_itself_is_measured(tmp_path):
    (tmp_path / "machines").mkdir()
    rates = [{"device": "metal", "memory_bytes_per_s": 7e11}, {"device": "cpu", "memory_bytes_per_s": 1e11}]
    absurd = [{"device": "metal", "memory_bytes_per_s": -5}]
    (tmp_path / "machines" / "absurd.json").write_text(json.dumps({"machine": "mac-studio-m3-ultra", "rates": absurd}))
    (tmp_path / "machines" / "deep.json").write_text("[" * 100_000)
    (tmp_path / "machines" / "one.json").write_text(json.dumps({"machine": "mac-studio-m3-ultra", "rates": rates}))
    (tmp_path / "machines" / "two.json").write_text(json.dumps({"machine": "another", "rates": rates}))
    (tmp_path / "machines" / "broken.json").write_bytes(b"\xff{")
    found = rated.estimates(BANDWIDTH, tmp_path)
    assert [(each.tier, each.value, each.low) for each in found] == [("measured", 7e11, None), ("published", 819e9, 819e9)]


def test_the_catalogues_share_of_memory_is_no_evidence_of_itself(tmp_path):
    share = claim("value", quantity="capacity_share", expected=(0.75, 0.75), unit="%", sides=(MAC,))
    assert rated.estimates(share, tmp_path) == []


def test_other_claims_are_not_its_business(tmp_path):
    assert rated.estimates(claim("value", quantity="peak_bytes", expected=(1, 1), unit="GB"), tmp_path) == []
