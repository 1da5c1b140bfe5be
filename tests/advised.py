"""A world made up for the tests of advice and refinement: what every cell needs and how fast it is, by two simple lines."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from claim_rows import rows

from bench.advise.answer import CONDITIONS, Question
from bench.catalog import MachineProfile, catalogue
from bench.limits import profile_of
from bench.model import Model
from bench.predict.capacity import fit_probability
from bench.predict.prediction import Memory, Prediction, Speed
from bench.spec import WORKLOAD_FIELDS, Cell, Workload, workload

PC, MAC = "pc-rtx-4090", "mac-studio-m3-ultra"
PER_PARAMETER = {"full": 8.0, "lora": 2.0, "qlora": 0.5}
RATES = {PC: 8e12, MAC: 1e12}
"""Tokens a second, times parameters."""
WATTS = {PC: (400.0, "gpu-board"), MAC: (200.0, "wall")}
SPREAD = 1.2


def machine(name: str) -> MachineProfile:
    found = profile_of(name)
    assert found is not None
    return found


def model(name: str = "8b") -> Model:
    known = catalogue()
    return known.models[known.aliases.get(name, name)]


def needs(work: Workload) -> float:
    """Fixed, per parameter, and per token; less where less is kept, more of a larger adapter."""
    per = PER_PARAMETER[work.method] - (2.0 if work.optimizer == "adamw_8bit" and work.method == "full" else 0.0)
    per += (work.rank or 0) / 160 * (0.5 if work.modules != workload(model=work.model, method="lora").modules else 1.0)
    tokens = work.batch_size * work.sequence_length
    return 1e9 + per * (work.model.parameters or 0) + tokens * (1e5 if work.gradient_checkpointing else 1e6)


def world(
    spread: float = SPREAD, rates: dict[str, float] | None = None, watts: dict[str, tuple[float, str]] | None = None
) -> Callable[[Cell, MachineProfile], Prediction | None]:
    """A foreteller; rates of a machine are the same by every stack, but unsloth a tenth faster."""

    def foretell(cell: Cell, profile: MachineProfile) -> Prediction:
        work, held = cell.workload, round(needs(cell.workload))
        rate = (rates or RATES)[profile.name] / (work.model.parameters or 1) * (1.1 if cell.backend == "unsloth" else 1)
        power, scope = (watts or WATTS)[profile.name]
        memory = Memory(
            parts={"weights": held},
            peak_bytes=held,
            peak_low_bytes=round(held / 1.01),
            peak_high_bytes=round(held * 1.01),
            held_bytes=held,
            held_low_bytes=round(held / 1.01),
            held_high_bytes=round(held * 1.01),
            how="rules",
        )
        speed = Speed(
            tokens_per_s=rate,
            tokens_per_s_low=rate / spread,
            tokens_per_s_high=rate * spread,
            power_w=power,
            power_scope=scope,
            j_per_token=power / rate,
        )
        there = profile.capacity_bytes
        return Prediction(memory=memory, speed=speed, capacity_bytes=there, fit_probability=fit_probability(memory, there))

    return foretell


def question(name: str = "8b", *methods: str, tokens: int = 10**7, price: float = 0.5, **declared: Any) -> Question:
    return Question(
        model=model(name),
        tokens=tokens,
        methods=methods or ("lora",),
        machines=(machine(PC), machine(MAC)),
        price_per_kwh=price,
        declared=declared,
    )


def ran(name: str, work: Workload, backend: str, device: str, rates: list[float], **fields: Any) -> list[dict[str, Any]]:
    """Runs of that work on a machine, as the store has them; `fields` change any column."""
    declared = {
        key: getattr(work, key) for key in WORKLOAD_FIELDS if key not in ("model", "method") and getattr(work, key) is not None
    }
    given = {"framework_peak_bytes": 15e9, "capacity_bytes": float(machine(name).capacity_bytes), **fields}
    return rows(name, rates, model=work.model.name, method=work.method, work=declared, backend=backend, device=device, **given)


def asked(name: str = "8b", method: str = "lora", **declared: Any) -> Workload:
    return workload(**{**CONDITIONS, **declared, "model": model(name), "method": method})
