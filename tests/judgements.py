"""Claims that nobody made, judged as they are planted."""

from __future__ import annotations

from typing import Any

from bench.claims.claim import Claim, Estimate, Expected, Judged, Language, Side

Texts = dict[Language, str]


def texts(text: str) -> Texts:
    return {"en": f"{text} (en)", "fr": f"{text} (fr)", "ro": f"{text} (ro)"}


def claim(name: str = "planted.claim", text: str = "A model takes 18 GB", **fields: Any) -> Claim:
    usual: dict[str, Any] = {
        "kind": "value",
        "quantity": "peak_bytes",
        "unit": "GB",
        "expected": Expected(18e9, 18e9),
        "models": ("llama-3.2-1b",),
        "methods": ("full",),
    }
    return Claim(id=name, statement=texts(text), **{**usual, **fields})


def estimate(**fields: Any) -> Estimate:
    usual: dict[str, Any] = {
        "tier": "measured",
        "what": "llama-3.2-1b full",
        "who": "hf@cuda on pc",
        "value": 12e9,
        "low": 11e9,
        "high": 13e9,
        "n": 3,
        "evidence": ("run-a", "run-b", "run-c"),
    }
    return Estimate(**{**usual, **fields})


def judged(verdict: Any = "refined", of: Claim | None = None, **fields: Any) -> Judged:
    usual: dict[str, Any] = {
        "reason": "1 of 1 says another number than the claim's, in its direction",
        "tiers": ("measured",),
        "value": 12e9,
        "low": 11e9,
        "high": 13e9,
        "estimates": (estimate(),),
    }
    return Judged(claim=of or claim(), verdict=verdict, **{**usual, **fields})


def winner_claim(name: str = "planted.winner", text: str = "The PC wins") -> Claim:
    sides = (Side(machines=("pc-rtx-4090",)), Side(machines=("mac-studio-m3-ultra",)))
    return claim(name, text, kind="winner", quantity=None, unit=None, expected=None, winner="first", sides=sides)
