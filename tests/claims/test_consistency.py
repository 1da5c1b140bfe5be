from typing import get_args

import pytest

from bench.claims.claim import QUANTITIES, Kind
from bench.claims.consistency import NEEDS, OF_SOME, SIDES, TAKES, UNITS, faults
from bench.claims.rows import Row

SAID = {"id": "a", "statement": {"en": "a", "fr": "b", "ro": "c"}}
ROOM = {"headroom": 0.2, "fits": "yes", "models": ["8b"], "methods": ["lora"], "sides": [{"machine": "pc-rtx-4090"}]}


def row(**keys) -> Row:
    return Row.model_validate({**SAID, **keys})


def test_every_kind_and_every_quantity_has_its_rule():
    assert NEEDS.keys() == TAKES.keys() == SIDES.keys() == set(get_args(Kind))
    assert UNITS.keys() == set(QUANTITIES)


@pytest.mark.parametrize("kind", get_args(Kind))
def test_no_kind_takes_a_key_twice_or_one_that_does_not_exist(kind):
    keys = (*NEEDS[kind], *TAKES[kind])
    assert len(set(keys)) == len(keys)
    assert set(keys) <= {*OF_SOME, "models", "methods"}


def test_a_row_without_fault_has_none():
    assert list(faults(row(kind="fit", **ROOM))) == []
    assert list(faults(row(kind="order", quantity="parts_over_rest", unit="×"))) == []


def test_two_sides_of_an_order_are_shown_as_a_factor():
    sides = [{"backend": "hf"}, {"backend": "mlx"}]
    order = {"kind": "order", "quantity": "peak_bytes", "sides": sides}
    assert list(faults(row(**order, unit="×"))) == []
    assert [key for key, _ in faults(row(**order, unit="GB"))] == ["unit"]


@pytest.mark.parametrize("key", OF_SOME)
def test_a_key_that_the_kind_does_not_read_is_a_fault(key):
    """For each key there is a kind that has no use for it, and a message that says so."""
    value = {
        "quantity": "peak_bytes",
        "expected": 1,
        "unit": "GB",
        "tolerance": 0.1,
        "scope": "wall",
        "fits": "yes",
        "headroom": 0.1,
        "winner": "tie",
        "techniques": ["nf4"],
        "share": 0.5,
    }[key]
    kind = next(kind for kind in get_args(Kind) if key not in (*NEEDS[kind], *TAKES[kind]))
    found = [message for name, message in faults(row(kind=kind, **{key: value})) if name == key]
    assert f"a claim of kind {kind} has no use for it; leave it out" in found


def test_several_faults_of_a_row_are_all_found():
    wrong = row(kind="value", quantity="power_w", expected=[1, 2], unit="GB", models=["9b"], sides=[{"machine": "h20"}])
    assert [key for key, _ in faults(wrong)] == ["expected", "unit", "scope", "models", "sides[0].machine"]


def test_only_a_tie_has_a_tolerance():
    sides = [{"machine": "pc-rtx-4090"}, {"machine": "mac-studio-m3-ultra"}]
    said = {"tolerance": 0.1, "tolerance_reason": {"en": "a", "fr": "b", "ro": "c"}}
    of = {"kind": "winner", "models": ["8b"], "methods": ["lora"], "sides": sides, **said}
    assert [key for key, _ in faults(row(winner="first", **of))] == ["tolerance"]
    assert list(faults(row(winner="tie", **of))) == []


def test_rows_that_are_cited_have_to_be_there_and_once():
    asked = row(kind="value", quantity="peak_bytes", expected=8e9, unit="GB", cites=["mac-001", "mac-01", "mac-001"])
    assert list(faults(asked, lambda: ["mac-001", "mac-012"])) == [
        ("cites", '"mac-001" stands twice; keep one'),
        ("cites", 'no published row "mac-01"; did you mean "mac-012"? (results/published holds them, calibrate --add adds more)'),
    ]
    nothing = row(kind="value", quantity="peak_bytes", expected=8e9, unit="GB", cites=["a"])
    assert ["none lie there" in message for _, message in faults(nothing)] == [True]
    assert list(faults(row(kind="value", quantity="peak_bytes", expected=8e9, unit="GB"), _never)) == []


def _never() -> list[str]:
    raise AssertionError("rows are read only where one is cited")


def test_what_no_source_can_divide_is_no_ratio():
    sides = [{"machine": "pc-rtx-4090"}, {"machine": "mac-studio-m3-ultra"}]
    found = faults(row(kind="ratio", quantity="memory_bytes_per_s", expected=2, unit="×", sides=sides))
    assert any(key == "quantity" and "is never divided by the other's; use" in message for key, message in found)
