"""The whole of `wingspan calibrate`: import, fit, score, write down.

In: a results folder, where reports go, perhaps a table of published measurements to add. Out: `suites/catalog/calibration.toml`
and `reports/prediction.md`, and the card itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

from bench import cited
from bench.files import atomic
from bench.predict import fit, fractions, rules
from bench.predict.evidence import Observation
from bench.predict.fit_memory import residuals
from bench.predict.fit_speed import shares
from bench.predict.fractions import CALIBRATION
from bench.predict.published import import_csv
from bench.predict.score import Card, brier, score, summarise
from bench.predict.score_card import card_text
from bench.predict.sources import of_one_source
from bench.predict.spread import stored_spreads
from bench.reading.strict import printable
from bench.spec import BadInput

REPORT = "prediction.md"


@dataclass(frozen=True, slots=True)
class Calibrated:
    """The card, and the files written."""

    card: Card
    written: tuple[Path, ...]

    def to_json(self) -> dict[str, Any]:
        """The document of `calibrate --json`: errors and coverage of the rows whose conditions are all stated, and of all."""
        peaks, rates, fits = self.card.peaks, self.card.rates, self.card.fits
        groups = {
            "peaks_stated": [each for each in peaks if each.seen.stated],
            "peaks": peaks,
            "rates_stated": [each for each in rates if each.seen.stated],
            "rates": rates,
        }
        summaries = {name: summarise(values) for name, values in groups.items()}
        return {
            **{name: found and asdict(found) for name, found in summaries.items()},
            "false_fits": [each.seen.id for each in fits if each.wrong == "false fit"],
            "false_noes": [each.seen.id for each in fits if each.wrong == "false no"],
            "brier": brier(fits),
            "left_out": self.card.left_out,
            "written": [str(path) for path in self.written],
        }


def scored(observations: Sequence[Observation]) -> Card:
    """How well predictions hold on what others published, each source predicted by the others; nothing is written."""
    seen, by_rule = of_one_source(observations), cache(rules.uncalibrated)
    return score(fit.Evidence(tuple(seen), {}), residuals(seen, by_rule), by_rule)


def calibrate(
    results: Path, out: Path, *, add: Path | None = None, keep: bool = True, calibration: Path = CALIBRATION
) -> Calibrated:
    """Fit on all evidence, score every source by the others, and write both down; `keep` False leaves the calibration as it is.

    Raises BadFile for a table or calibration with faults, OSError naming what cannot be read or written.
    """
    written = [import_csv(add, results)] if add is not None else []
    if keep and not cited.tables(results):
        where = printable(str(results / cited.FOLDER))
        raise BadInput(
            f"{where} holds no table, and {calibration.name}, which every prediction reads, would forget what they taught"
            " it: copy results/published there, or add --score-only"
        )
    evidence = fit.gather(results)
    by_rule = cache(rules.uncalibrated)
    found = residuals(evidence.observations, by_rule)
    learnt = fit.fitted(found, shares(evidence.observations), evidence.powers[0])
    card = score(evidence, found, by_rule)
    if keep:
        fit.write(calibration, learnt)
        fractions.forget()
        stored_spreads.cache_clear()
        written.append(calibration)
    report = out / REPORT
    with atomic.staged(report, card_text(card, learnt, evidence).encode()) as staged:
        atomic.republish(staged, report)
    return Calibrated(card, (*written, report))
