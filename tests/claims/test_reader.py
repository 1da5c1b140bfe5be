import re
import tomllib
from pathlib import Path
from typing import get_args

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bench.catalog import catalogue
from bench.claims.asked import works
from bench.claims.claim import LANGUAGES, QUANTITIES, Claim, Expected, Kind, Side
from bench.claims.reader import CLAIMS, read_claims
from bench.reading.strict import BadFile

IDS = (
    "memory.parts",
    "memory.full.rule",
    "memory.full.weights",
    "memory.full.gradients",
    "memory.full.optimizer",
    "memory.lora.rule",
    "memory.qlora.rule",
    "memory.adapters.16bit",
    "memory.table.full.1b",
    "memory.table.full.4b",
    "memory.table.full.8b",
    "memory.table.full.14b",
    "memory.table.full.32b",
    "memory.table.full.70b",
    "memory.table.lora.1b",
    "memory.table.lora.4b",
    "memory.table.lora.8b",
    "memory.table.lora.14b",
    "memory.table.lora.32b",
    "memory.table.lora.70b",
    "memory.table.qlora.1b",
    "memory.table.qlora.4b",
    "memory.table.qlora.8b",
    "memory.table.qlora.14b",
    "memory.table.qlora.32b",
    "memory.table.qlora.70b",
    "mac.memory.unified",
    "mac.memory.share",
    "mac.fit.qlora.32b",
    "mac.fit.lora.14b",
    "mac.fit.qlora.70b",
    "mac.slow-not-crash",
    "mac.power.load",
    "mac.bandwidth",
    "mac.decode",
    "mac.stack.lag",
    "pc.bandwidth",
    "pc.wall",
    "pc.fit.lora.14b",
    "pc.fit.qlora.32b",
    "pc.fit.qlora.70b",
    "pc.host.role",
    "pc.unsloth.speed",
    "pc.unsloth.memory",
    "pc.power.gpu",
    "pc.stack.first",
    "speed.ratio",
    "speed.hour",
    "winner.lora-qlora.1b-8b",
    "winner.qlora.14b-32b",
    "winner.70b",
    "winner.serving",
    "winner.new-techniques",
)
SIZES = ("1b", "4b", "8b", "14b", "32b", "70b")
TABLE_GB = {"full": (18, 70, 140, 250, 550, 1200), "lora": (3, 10, 18, 32, 70, 150), "qlora": (1.5, 4, 7, 12, 24, 48)}
NUMBERS = {
    "memory.parts": (1, None),
    "memory.full.rule": (16, 20),
    "memory.full.weights": (2, 2),
    "memory.full.gradients": (2, 2),
    "memory.full.optimizer": (8, 12),
    "memory.lora.rule": (2, 2.5),
    "memory.qlora.rule": (0.6, 0.8),
    "mac.memory.share": (0.75, 0.75),
    "mac.power.load": (160, 160),
    "mac.bandwidth": (800e9, 800e9),
    "mac.decode": (7, None),
    "pc.bandwidth": (1000e9, 1000e9),
    "pc.host.role": (None, 1.5),
    "pc.unsloth.speed": (2, 2),
    "pc.unsloth.memory": (0.5, 0.5),
    "pc.power.gpu": (450, 450),
    "speed.ratio": (2, 4),
    "speed.hour": (3, 4),
}
NUMBERS |= {
    f"memory.table.{method}.{size}": (gb * 1e9,) * 2
    for method, row in TABLE_GB.items()
    for size, gb in zip(SIZES, row, strict=True)
}
MAC, PC = Side(machines=("mac-studio-m3-ultra",)), Side(machines=("pc-rtx-4090",))
NO_BREAK, NARROW = "\u00a0", "\u202f"

STATEMENT = {"statement": '{en = "a", fr = "b", ro = "c"}'}
VALUE = {"id": '"a.b"', "kind": '"value"', "quantity": '"peak_bytes"', "expected": "18e9", "unit": '"GB"', **STATEMENT}
FIT = {"id": '"a.c"', "kind": '"fit"', "fits": '"no"', "models": '["8b"]', "methods": '["full"]', **STATEMENT}
FIT |= {"sides": '[{machine = "pc-rtx-4090"}]'}
RATIO = VALUE | {"id": '"a.d"', "kind": '"ratio"', "quantity": '"tokens_per_s"', "expected": "[2, 4]", "unit": '"×"'}
RATIO |= {"sides": '[{machine = "pc-rtx-4090"}, {machine = "mac-studio-m3-ultra"}]'}
SUPPORT = {"id": '"a.e"', "kind": '"support"', "techniques": '["unified-memory"]', "sides": '[{backend = "mlx"}]', **STATEMENT}


def toml(*rows: dict[str, str], head: str = "") -> str:
    return "\n".join([head, *("[[claim]]\n" + "\n".join(f"{key} = {value}" for key, value in row.items()) for row in rows)])


def without(row: dict[str, str], *keys: str) -> dict[str, str]:
    return {key: value for key, value in row.items() if key not in keys}


def read(tmp_path: Path, *rows: dict[str, str], head: str = "") -> tuple[Claim, ...]:
    path = tmp_path / "claims.toml"
    path.write_text(toml(*rows, head=head), encoding="utf-8")
    return read_claims(path)


def faults(tmp_path: Path, *rows: dict[str, str], head: str = "") -> list[str]:
    with pytest.raises(BadFile) as caught:
        read(tmp_path, *rows, head=head)
    lines = str(caught.value).splitlines()
    assert len(lines) == len(caught.value.problems), "a line a fault"
    return [line.removeprefix(f"{tmp_path / 'claims.toml'}: ") for line in lines]


@pytest.fixture(scope="module")
def claims() -> dict[str, Claim]:
    return {claim.id: claim for claim in read_claims(CLAIMS)}


def test_every_claim_of_the_lesson_has_a_row_in_its_order(claims):
    assert len(IDS) == 53
    assert tuple(claims) == IDS


def test_the_numbers_are_the_lessons_in_si_units(claims):
    assert {name: claim.expected for name, claim in claims.items() if claim.expected} == {
        name: Expected(low, high) for name, (low, high) in NUMBERS.items()
    }


def test_a_cell_of_the_table_is_about_its_own_model_and_method(claims):
    for method in TABLE_GB:
        for size in SIZES:
            claim = claims[f"memory.table.{method}.{size}"]
            assert (claim.models, claim.methods) == ((catalogue().aliases[size],), (method,))


@pytest.mark.parametrize(
    ("name", "side", "fits"),
    [
        ("mac.fit.qlora.32b", MAC, "yes"),
        ("mac.fit.lora.14b", MAC, "yes"),
        ("mac.fit.qlora.70b", MAC, "yes"),
        ("mac.slow-not-crash", MAC, "slow"),
        ("pc.wall", PC, "crash"),
        ("pc.fit.lora.14b", PC, "no"),
        ("pc.fit.qlora.32b", PC, "tight"),
        ("pc.fit.qlora.70b", PC, "no"),
    ],
)
def test_what_is_said_to_fit_where(claims, name, side, fits):
    assert (claims[name].kind, claims[name].sides, claims[name].fits) == ("fit", (side,), fits)


def test_comfortable_means_that_a_fifth_stays_free(claims):
    assert {name: claim.headroom for name, claim in claims.items() if claim.headroom} == {"mac.fit.qlora.32b": 0.2}


@pytest.mark.parametrize(
    ("name", "winner"),
    [
        ("winner.lora-qlora.1b-8b", "first"),
        ("winner.qlora.14b-32b", "second"),
        ("winner.70b", "second"),
        ("winner.serving", "tie"),
    ],
)
def test_who_is_said_to_win_the_pc_being_the_first(claims, name, winner):
    assert (claims[name].sides, claims[name].winner) == ((PC, MAC), winner)


def test_watts_cover_what_the_statement_says(claims):
    assert {name: claim.scope for name, claim in claims.items() if claim.scope} == {
        "mac.power.load": "wall",
        "pc.power.gpu": "gpu-board",
    }


def test_about_is_the_same_for_all_but_orders_and_thresholds_of_ours(claims):
    assert {claim.tolerance for claim in claims.values()} == {0.15, 0.0}
    assert [name for name, claim in claims.items() if claim.tolerance == 0] == ["memory.parts", "mac.decode", "pc.host.role"]
    assert all(claim.tolerance_reason.keys() == set(LANGUAGES) for claim in claims.values())


def test_what_is_usual_is_what_the_lessons_suite_measures(claims):
    fixed = tomllib.loads((CLAIMS.parents[1] / "lesson.toml").read_text(encoding="utf-8"))["fixed"]
    for name in ("memory.table.lora.8b", "winner.serving"):
        assert claims[name].conditions == {key: fixed[key] for key in claims[name].conditions}
        assert len(claims[name].conditions) == {"memory.table.lora.8b": 10, "winner.serving": 4}[name]


def test_other_conditions_are_few_and_shown_here(claims):
    usual = claims["speed.ratio"].conditions
    apart = {
        name: dict(claim.conditions.items() - usual.items()) for name, claim in claims.items() if claim.methods != ("serve",)
    }
    assert {name: fields for name, fields in apart.items() if fields} == {
        "mac.slow-not-crash": {"sequence_length": 4096},
        "pc.fit.qlora.32b": {"sequence_length": 512},
    }


def test_every_claim_asks_of_work_that_can_be_declared(claims):
    assert all(len(works(claim)) == len(claim.models) * len(claim.methods) for claim in claims.values() if claim.models)


def texts(claims) -> list[tuple[str, str, str]]:
    """(id, language, text) of all that a reader reads."""
    kinds = ("statement", "remark", "tolerance_reason")
    return [(name, lang, text) for name, claim in claims.items() for kind in kinds for lang, text in getattr(claim, kind).items()]


def numbers(text: str, language: str) -> list[str]:
    """The numbers of a text as an English reader writes them, without separators of thousands."""
    thousands, point = {"en": (",", "."), "fr": (NARROW, ","), "ro": (".", ",")}[language]
    found = re.findall(rf"\d{{1,3}}(?:[{thousands}]\d{{3}})+|\d+(?:[{point}]\d+)?", text)
    return sorted(
        each.replace(thousands, "") if re.search(rf"[{thousands}]\d{{3}}", each) else each.replace(",", ".") for each in found
    )


def test_numbers_are_written_as_each_language_does():
    assert (
        numbers("1,008 and 2.5 of 8B", "en")
        == numbers(f"1{NARROW}008 et 2,5 de 8B", "fr")
        == numbers("1.008 și 2,5 din 8B", "ro")
    )


def test_the_languages_say_the_same_numbers(claims):
    for name, claim in claims.items():
        for said in (claim.statement, claim.remark):
            assert len({tuple(numbers(said[language], language)) for language in said}) <= 1, (name, said)


def test_a_statement_is_in_three_languages_that_differ(claims):
    for claim in claims.values():
        assert claim.statement.keys() == set(LANGUAGES)
        assert len(set(claim.statement.values())) == 3


def test_no_line_breaks_between_a_number_and_its_unit(claims):
    for name, _, text in texts(claims):
        assert not re.search(r"\d (GB|TB|Go|To|W|bits?|biți|bytes|octets|octeți|%)\b", text), (name, text)


def test_french_is_set_as_french(claims):
    for name, language, text in texts(claims):
        if language == "fr":
            assert not re.search(rf"(?<![{NARROW}])[;!?%]|(?<![{NO_BREAK}]):|«(?!{NO_BREAK})|(?<!{NO_BREAK})»", text), (
                name,
                text,
            )
            assert not re.search(r"['\"]|\b(GB|TB)\b|\d\.\d", text), (name, text)


def test_romanian_is_set_as_romanian(claims):
    said = [(name, text) for name, language, text in texts(claims) if language == "ro"]
    for name, text in said:
        assert not re.search(r"[şţŞŢ'\"]|\b(Go|To)\b|[ \u00a0\u202f][;:!?]|(?<![\u00a0])%|\d[.,]\d \d", text), (name, text)
    assert any(letter in text for _, text in said for letter in "șț")


def test_english_is_set_as_english(claims):
    assert [name for name, language, text in texts(claims) if language == "en" and re.search(r"['\"]|\s[;:!?%]", text)] == []


def test_a_claim_is_read_as_it_stands(tmp_path):
    (value,) = read(tmp_path, VALUE | {"models": '["8b"]', "methods": '["lora"]', "remark": '{en = "d", fr = "e", ro = "f"}'})
    assert value == Claim(
        id="a.b",
        kind="value",
        statement={"en": "a", "fr": "b", "ro": "c"},
        remark={"en": "d", "fr": "e", "ro": "f"},
        quantity="peak_bytes",
        expected=Expected(18e9, 18e9),
        unit="GB",
        models=("llama-3.1-8b",),
        methods=("lora",),
    )


def test_a_side_names_one_or_several_and_an_implementation(tmp_path):
    side = '{machine = ["pc-rtx-4090", "h200"], backend = "hf", device = "cuda", implementation = {kernels = "liger"}}'
    (claim,) = read(tmp_path, FIT | {"sides": f"[{side}]"})
    assert claim.sides == (
        Side(machines=("pc-rtx-4090", "h200"), backends=("hf",), devices=("cuda",), implementation={"kernels": "liger"}),
    )


def test_modules_have_one_spelling(tmp_path):
    (claim,) = read(tmp_path, FIT | {"conditions": '{modules = "v_proj, q_proj,k_proj,o_proj"}'})
    assert claim.conditions == {"modules": "attention"}


def test_an_order_is_above_one_without_any_about(tmp_path):
    (claim,) = read(tmp_path, without(VALUE, "expected") | {"kind": '"order"', "quantity": '"parts_over_rest"', "unit": '"×"'})
    assert (claim.expected, claim.tolerance) == (Expected(1.0, None), 0.0)


def test_a_claim_about_training_and_serving_has_the_conditions_of_both(tmp_path):
    head = "[conditions.training]\nbatch_size = 2\n[conditions.serving]\nbatch_size = 1\nprompt_tokens = 64\n"
    both, serving, training = read(
        tmp_path,
        FIT | {"methods": '["lora", "serve"]'},
        FIT | {"id": '"s"', "methods": '["serve"]'},
        FIT | {"id": '"t"', "methods": '["lora"]'},
        head=head,
    )
    assert both.conditions == {"batch_size": 2, "prompt_tokens": 64}
    assert serving.conditions == {"batch_size": 1, "prompt_tokens": 64}
    assert training.conditions == {"batch_size": 2}


@pytest.mark.parametrize(
    ("row", "fault"),
    [
        (without(VALUE, "id"), "claim[0].id: missing; see docs/claims.md"),
        (without(VALUE, "statement"), "a.b.statement: missing; see docs/claims.md"),
        (VALUE | {"id": '"A b"'}, "\"A b\".id: use small letters, digits, '.' and '-' only"),
        (VALUE | {"id": '"a\\u001b"'}, "\"a\\x1b\".id: use small letters, digits, '.' and '-' only"),
        (VALUE | {"kind": '"valu"'}, 'a.b.kind: unknown kind "valu"; did you mean "value"?'),
        (VALUE | {"quantity": '"peak"'}, 'a.b.quantity: unknown quantity "peak"; did you mean "peak_bytes"?'),
        (VALUE | {"statement": '{en = "a", fr = "b"}'}, "a.b.statement.ro: missing; say it in en, fr and ro"),
        (VALUE | {"statement": '{en = "", fr = "b", ro = "c"}'}, "a.b.statement.en: empty; write it"),
        (VALUE | {"statement": '{en = "a", fr = "b", ro = "c", rp = "d"}'}, 'a.b.statement.rp: unknown key; did you mean "ro"?'),
        (
            VALUE | {"statement": '{en = "a\\nb", fr = "b", ro = "c"}'},
            "a.b.statement.en: holds line breaks or control characters; write one paragraph, broken by a \\ at the line's end",
        ),
        (VALUE | {"exepcted": "1"}, 'a.b.exepcted: unknown key; did you mean "expected"?'),
        (without(VALUE, "expected"), "a.b.expected: missing: a claim of kind value cannot be judged without it"),
        (VALUE | {"expected": "[4, 2]"}, "a.b.expected: 4 is above 2; turn them round"),
        (VALUE | {"expected": '["open", "open"]'}, "a.b.expected: both ends are open: it claims nothing; give one"),
        (VALUE | {"expected": "[2, 4]"}, "a.b.expected: a value is one number; from here to there is a range"),
        (VALUE | {"kind": '"range"'}, "a.b.expected: a range has two ends; one number is a value"),
        *[
            (VALUE | {"expected": wrong}, 'a.b.expected: give a number above 0, or [from, to], where one end may be "open"')
            for wrong in ("0", "-1", "nan", "inf", "true", '"2"', "[1]", "[1, 2, 3]", '["to", 2]', "[[1], 2]", "{a = 1}")
        ],
        (
            VALUE | {"unit": '"GiB"'},
            'a.b.unit: "GiB" is not what is shown; write "GB" (expected is in SI units all the same)',
        ),
        (VALUE | {"tolerance": "0.5"}, "a.b.tolerance_reason: missing: say why so much"),
        (VALUE | {"tolerance_reason": '{en = "a", fr = "b", ro = "c"}'}, "a.b.tolerance: missing: say how much"),
        (
            VALUE | {"tolerance": "15", "tolerance_reason": '{en = "a", fr = "b", ro = "c"}'},
            "a.b.tolerance: 15 is out of range: must be at most 1",
        ),
        (VALUE | {"fits": '"no"'}, "a.b.fits: a claim of kind value has no use for it; leave it out"),
        (VALUE | {"scope": '"wall"'}, "a.b.scope: only watts have one; leave it out"),
        (
            VALUE | {"quantity": '"power_w"', "unit": '"W"'},
            "a.b.scope: missing: say what the watts cover, gpu-board, soc, package or wall",
        ),
        (VALUE | {"models": '["9b"]'}, 'a.b.models: no model "9b"; did you mean "8b"?'),
        (VALUE | {"models": '["8b", "llama-3.1-8b"]'}, 'a.b.models: "llama-3.1-8b" stands twice; keep one'),
        (VALUE | {"methods": '["dora"]'}, 'a.b.methods: no method "dora"; did you mean "lora"?'),
        (VALUE | {"models": '"8b"'}, 'a.b.models: expected a list, got "8b"'),
        (VALUE | {"sides": "[]"}, "a.b.sides: empty; leave the key out, or fill it"),
        (VALUE | {"sides": "[{}, {}]"}, "a.b.sides: a claim of kind value is about one side; name it"),
        (VALUE | {"sides": '[{machine = "pc"}]'}, 'a.b.sides[0].machine: no machine "pc"; use one of mac-studio-m3-ultra,'),
        (VALUE | {"sides": '[{machines = "h200"}]'}, 'a.b.sides[0].machines: unknown key; did you mean "machine"?'),
        (VALUE | {"sides": '[{backend = "mxl"}]'}, 'a.b.sides[0].backend: no backend "mxl"; did you mean "mlx"?'),
        (VALUE | {"sides": '[{device = "cud"}]'}, 'a.b.sides[0].device: no device "cud"; did you mean "cuda"?'),
        (VALUE | {"sides": "[{device = 3}]"}, "a.b.sides[0].device: expected a list, got 3"),
        (
            VALUE | {"sides": '[{implementation = {kernel = "liger"}}]'},
            'a.b.sides[0].implementation.kernel: unknown key; did you mean "kernels"?',
        ),
        (
            VALUE | {"sides": '[{implementation = {kernels = "tiger"}}]'},
            'a.b.sides[0].implementation.kernels: unknown kernels "tiger"; did you mean "liger"?',
        ),
        (VALUE | {"conditions": "{length = 2}"}, 'a.b.conditions.length: unknown key; did you mean "sequence_length"?'),
        (VALUE | {"conditions": '{method = "lora"}'}, "a.b.conditions.method: unknown key; "),
        (
            VALUE | {"conditions": '{sequence_length = "2048"}'},
            'a.b.conditions.sequence_length: expected a whole number, got "2048"',
        ),
        (
            VALUE | {"conditions": '{optimizer = "adam"}'},
            'a.b.conditions.optimizer: unknown optimizer "adam"; did you mean "adamw"?',
        ),
        (VALUE | {"conditions": '{modules = "qproj"}'}, "a.b.conditions.modules: unknown module"),
        (without(FIT, "models"), "a.c.models: missing: a claim of kind fit cannot be judged without it"),
        (FIT | {"fits": '"full"'}, 'a.c.fits: unknown fits "full"; use one of yes, tight, no'),
        (without(FIT, "sides"), "a.c.sides: a claim of kind fit is about one side; name it"),
        (FIT | {"sides": "[{}]"}, "a.c.sides[0].machine: missing: a claim of kind fit is about a machine"),
        (FIT | {"expected": "1"}, "a.c.expected: a claim of kind fit has no use for it; leave it out"),
        (FIT | {"headroom": "2"}, "a.c.headroom: 2 is out of range: must be at most 1"),
        (
            RATIO | {"sides": '[{machine = "h200"}]'},
            "a.d.sides: a claim of kind ratio is about two sides against each other; name both",
        ),
        (RATIO | {"unit": '"tokens/s"'}, 'a.d.unit: "tokens/s" is not what is shown; write "×" (expected is in SI'),
        (SUPPORT | {"techniques": '["unified"]'}, 'a.e.techniques: no technique "unified"; did you mean "unified-memory"?'),
        (SUPPORT | {"techniques": "[]"}, "a.e.techniques: missing: a claim of kind support cannot be judged without it"),
        (without(SUPPORT, "sides"), "a.e.sides: a claim of kind support is about who can answer"),
    ],
)
def test_a_fault_names_the_claim_its_key_and_the_remedy(tmp_path, row, fault):
    (line,) = faults(tmp_path, row)
    assert line.startswith(fault)


@pytest.mark.parametrize(
    ("head", "fault"),
    [
        ("claims = 1", 'claims: unknown key; did you mean "claim"?'),
        ("[conditions]\ntrainig = {}", 'conditions.trainig: unknown key; did you mean "training"?'),
        ("[conditions.training]\nrnk = 1", 'conditions.training.rnk: unknown key; did you mean "rank"?'),
        ("[conditions.serving]\nbatch_size = 0", "conditions.serving.batch_size: 0 is out of range: must be at least 1"),
        ("[tolerance]\nvalue = 0.1", "tolerance.reason: missing; see docs/claims.md"),
        (
            '[tolerance]\nvalue = 2\nreason = {en = "a", fr = "b", ro = "c"}',
            "tolerance.value: 2 is out of range: must be at most 1",
        ),
    ],
)
def test_a_fault_outside_the_claims_names_its_table(tmp_path, head, fault):
    assert faults(tmp_path, VALUE, head=head) == [fault]


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        ("", "claim: missing; see docs/claims.md"),
        ("claim = 3", "claim: expected a list, got 3"),
        ("claim = [3]", "claim[0]: expected a table, got 3"),
    ],
)
def test_a_file_without_claims_says_so(tmp_path, content, fault):
    assert faults(tmp_path, head=content) == [fault]


def test_every_fault_of_every_claim_is_told_at_once(tmp_path):
    worse = VALUE | {"id": '"x"', "kind": '"valu"', "expected": "0"}
    found = faults(
        tmp_path, VALUE | {"models": '["9b"]', "methods": '["dora"]'}, worse, VALUE | {"fits": '"no"'}, head="mdel = 1"
    )
    assert [line.partition(": ")[0] for line in found] == [
        "mdel",
        "a.b.models",
        "a.b.methods",
        "x.kind",
        "x.expected",
        "a.b.id",
        "a.b.fits",
    ]


def test_faults_of_two_files_are_told_together_and_an_id_is_free_once(tmp_path):
    first, second = tmp_path / "a.toml", tmp_path / "b.toml"
    first.write_text(toml(VALUE, VALUE | {"id": '"x"', "models": '["9b"]'}), encoding="utf-8")
    second.write_text(toml(VALUE), encoding="utf-8")
    with pytest.raises(BadFile) as caught:
        read_claims(first, second, tmp_path / "none.toml")
    assert str(caught.value).splitlines() == [
        f'{first}: x.models: no model "9b"; did you mean "8b"?',
        f"{second}: a.b.id: stands twice, also in {first}; rename one",
        f"{tmp_path / 'none.toml'}: cannot be read: No such file or directory",
    ]


def test_a_users_file_adds_to_the_catalogue_and_means_the_same_by_usual(tmp_path, claims):
    own = tmp_path / "own.toml"
    own.write_text(
        toml(VALUE, FIT | {"conditions": "{rank = 8}"}, head="[conditions.training]\nsequence_length = 512\n"), encoding="utf-8"
    )
    *before, value, fit = read_claims(CLAIMS, own)
    usual = claims["speed.ratio"].conditions
    assert before == [*claims.values()]
    assert (value.id, fit.id) == ("a.b", "a.c")
    assert value.conditions == {**usual, "sequence_length": 512}
    assert fit.conditions == {**usual, "sequence_length": 512, "rank": 8}
    assert value.tolerance_reason == claims["speed.ratio"].tolerance_reason


def test_a_users_file_may_say_what_about_means(tmp_path):
    own = tmp_path / "own.toml"
    own.write_text(toml(VALUE, head='[tolerance]\nvalue = 0.05\nreason = {en = "a", fr = "b", ro = "c"}\n'), encoding="utf-8")
    *before, value = read_claims(CLAIMS, own)
    assert (value.tolerance, value.tolerance_reason["fr"]) == (0.05, "b")
    assert {claim.tolerance for claim in before} == {0.15, 0.0}


LINES = toml(VALUE, FIT, RATIO, SUPPORT, head="[conditions.training]\nrank = 16\n").splitlines()
LITERALS = [
    "0",
    "-1",
    "1e400",
    "nan",
    "true",
    '""',
    '"a"',
    '"\\u001b[2J"',
    "[]",
    "[[]]",
    "{}",
    "[{}]",
    "{en = 1}",
    "1979-05-27",
    '["open", 1]',
    "'''x\ny'''",
]
EDITS = st.lists(
    st.tuples(
        st.sampled_from(["drop", "twice", "value", "key", "cut"]), st.integers(0, len(LINES) - 1), st.sampled_from(LITERALS)
    ),
    min_size=1,
    max_size=4,
)


def edited(edits: list[tuple[str, int, str]]) -> str:
    lines = list(LINES)
    for what, place, literal in edits:
        line = lines[place % len(lines)]
        key, _, value = line.partition(" = ")
        changed = {
            "drop": "",
            "twice": f"{line}\n{line}",
            "value": f"{key} = {literal}",
            "key": f"{key}x = {value}",
            "cut": line[:-2],
        }
        lines[place % len(lines)] = changed[what]
    return "\n".join(lines)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(EDITS.map(edited) | st.binary(max_size=60).map(lambda data: data.decode("latin-1")))
def test_whatever_a_file_says_it_is_read_or_refused_with_printable_lines(tmp_path, content):
    path = tmp_path / "claims.toml"
    path.write_text(content, encoding="utf-8")
    found, refused = _outcome(path)
    if refused is None:
        assert len(found) == content.count("[[claim]]")
    else:
        lines = str(refused).split("\n")
        assert len(lines) == len(refused.problems)
        assert all(line.startswith(f"{path}: ") and line.isprintable() for line in lines)


def _outcome(path: Path) -> tuple[tuple[Claim, ...], BadFile | None]:
    try:
        return read_claims(path), None
    except BadFile as error:
        return (), error


def test_the_example_of_the_documentation_is_read(tmp_path, claims):
    text = (CLAIMS.parents[2] / "docs" / "claims.md").read_text(encoding="utf-8")
    (tmp_path / "mine.toml").write_text(text.partition("```toml\n")[2].partition("```")[0], encoding="utf-8")
    *_, mine = read_claims(CLAIMS, tmp_path / "mine.toml")
    assert (mine.id, mine.models, mine.expected) == ("mine.qlora.8b", ("llama-3.1-8b",), Expected(8e9, 8e9))
    assert mine.conditions == {**claims["speed.ratio"].conditions, "sequence_length": 4096}


def test_the_documentation_has_every_kind_and_every_quantity():
    text = (CLAIMS.parents[2] / "docs" / "claims.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`(\w+)`", text)) | {f"{part}_bytes_per_parameter" for part in ("weights", "gradients")}
    assert {*get_args(Kind), *QUANTITIES} <= named
