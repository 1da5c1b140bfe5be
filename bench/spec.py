"""What we ask: workloads, cells and suites.

In: models. Out: frozen values that every other module shares (no I/O, no framework). A `Workload` says *what* has to be
computed; its digest is the key on which runs of different backends are compared. A `Cell` adds *who* computes it (backend,
device, implementation). A `Suite` is a question, declared as a product of workload and implementation fields.

The bounds written beside the fields are checked by `bench.suite` when a suite is read; they exist to catch slips of the pen
(a sequence length of a billion), not to limit what is measured.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from functools import cache
from typing import Annotated, Any, Literal, get_args

from annotated_types import Ge, Gt, Le, Lt

from bench.model import Model, digest_of

Method = Literal["full", "lora", "qlora", "serve"]
Optimizer = Literal["adamw", "adamw_8bit", "sgd"]
Dtype = Literal["float32", "bfloat16", "float16"]
BackendName = Literal["hf", "unsloth", "mlx", "fake"]
Device = Literal["cpu", "cuda", "metal", "mps"]
Weights = Literal["random", "hub", "folder"]
Attention = Literal["eager", "sdpa", "flash", "flash-attn"]
Kernels = Literal["liger"]
Checkpointing = Literal["torch", "unsloth"]
OptimizerKernel = Literal["foreach", "fused"]
QuantizationFormat = Literal["nf4", "nf4-double", "affine"]
Scalar = str | int | float | bool | None

METHODS: tuple[Method, ...] = get_args(Method)
ADAPTER_METHODS: tuple[Method, ...] = ("lora", "qlora")
BACKENDS: tuple[BackendName, ...] = get_args(BackendName)
DEVICES: tuple[Device, ...] = get_args(Device)

ATTENTION_MODULES = ("q_proj", "k_proj", "v_proj", "o_proj")
MLP_MODULES = ("gate_proj", "up_proj", "down_proj")
BLOCK_MODULES = ATTENTION_MODULES + MLP_MODULES
MODULE_SETS = {"all": BLOCK_MODULES, "attention": ATTENTION_MODULES}


class BadInput(ValueError):
    """Something that a user gave cannot be used. The message names it, says what is wrong with it, and the remedy."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """What has to be computed. Build it with `workload()`, which resolves defaults and blanks what the method does not use.

    `sequence_length` is the number of token positions that go forward per sequence; of these, `sequence_length - 1` predict a
    next token that lies in the sequence, and only these enter the loss. `master_dtype` None means that the optimizer updates
    the weights in `weights_dtype`; `float32` means float32 weights and states with the forward pass in `weights_dtype`
    (autocast). `optimizer_dtype` is the dtype of the optimizer's state. `quantization_bits` None means that the frozen base
    is not quantised. `adapter_layers` None means every block, n means the last n. `modules` is "all" (the linear layers of
    the blocks), "attention", or names joined by commas.

    `weights` are random, or real: from the hub or from a folder; `revision` then says which, as the hub's commit (40 hex digits)
    or as a digest of the folder's files.

    Where the method is `serve`, a batch of prompts of `prompt_tokens` each goes forward, and `generated_tokens` follow one by
    one, the first from the prompt itself; `sequence_length` is their sum, and what only training knows is None, or its plainest
    value.
    """

    model: Model
    method: Method
    batch_size: Annotated[int, Ge(1), Le(4096)] = 1
    sequence_length: Annotated[int, Ge(2), Le(2**20)] = 2048
    gradient_accumulation: Annotated[int, Ge(1), Le(4096)] = 1
    gradient_checkpointing: bool = True
    optimizer: Optimizer | None = "adamw"
    learning_rate: Annotated[float, Gt(0), Le(10)] | None = 1e-4
    weights_dtype: Dtype = "bfloat16"
    adapter_dtype: Dtype | None = "float32"
    optimizer_dtype: Dtype | None = None
    master_dtype: Literal["float32"] | None = None
    quantization_bits: Literal[4, 8] | None = None
    rank: Annotated[int, Ge(1), Le(4096)] | None = 16
    alpha: Annotated[float, Gt(0), Le(65536)] | None = 32.0
    dropout: Annotated[float, Ge(0), Lt(1)] | None = 0.0
    modules: str | None = "all"
    adapter_layers: Annotated[int, Ge(1), Le(1024)] | None = None
    prompt_tokens: Annotated[int, Ge(1), Le(2**20)] | None = 512
    generated_tokens: Annotated[int, Ge(2), Le(2**20)] | None = 128
    seed: Annotated[int, Ge(0), Lt(2**32)] = 0
    weights: Weights = "random"
    revision: str | None = None

    @property
    def digest(self) -> str:
        """16 hex digits over every field but the model's name and origin: equal digests mean equal work."""
        content = {name: getattr(self, name) for name in WORKLOAD_FIELDS} | {"model": self.model.architecture}
        return digest_of(_without_later(content))

    @property
    def has_adapters(self) -> bool:
        return self.method in ADAPTER_METHODS

    @property
    def module_names(self) -> tuple[str, ...]:
        """The adapted projections, in the order of a block; empty without adapters."""
        return expand_modules(self.modules) if self.has_adapters and self.modules else ()

    @property
    def trainable_dtype(self) -> Dtype:
        """The dtype in which the optimizer updates parameters."""
        if self.has_adapters and self.adapter_dtype is not None:
            return self.adapter_dtype
        return self.master_dtype or self.weights_dtype

    @property
    def serves(self) -> bool:
        return self.method == "serve"

    @property
    def tokens_per_step(self) -> int:
        """All token positions of one optimizer step; of one batch of requests, prompt and generation together."""
        return self.batch_size * self.sequence_length * self.gradient_accumulation

    @property
    def loss_tokens_per_step(self) -> int:
        """The positions that enter the loss: the last of each sequence has no next token."""
        return self.batch_size * (self.sequence_length - 1) * self.gradient_accumulation


WORKLOAD_FIELDS: tuple[str, ...] = tuple(f.name for f in fields(Workload))
TRAINING_FIELDS = (
    "sequence_length",
    "gradient_accumulation",
    "gradient_checkpointing",
    "optimizer",
    "learning_rate",
    "optimizer_dtype",
    "master_dtype",
)
"""Fields that mean nothing to `serve`."""
_LATER_FIELDS: Mapping[str, Any] = {"weights": "random", "revision": None, "kernels": None, "checkpointing": None}
"""Fields that came after the first results were stored; at these values they stay out of digests, so that old ones hold."""


def _without_later(content: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in content.items() if name not in _LATER_FIELDS or value != _LATER_FIELDS[name]}


def workload(**declared: Any) -> Workload:
    """A workload from declared fields: defaults filled in, fields that the method does not use set to None.

    Two declarations of the same work therefore have the same digest (a full fine-tune has no rank). Raises TypeError for an
    unknown field and ValueError for an unknown module name.
    """
    draft = Workload(**declared)
    resolved: dict[str, Any] = {}
    if not draft.has_adapters:
        resolved |= dict.fromkeys(("adapter_dtype", "rank", "alpha", "dropout", "modules", "adapter_layers"))
    elif draft.modules is not None:
        resolved["modules"] = ",".join(expand_modules(draft.modules))
        resolved["alpha"] = None if draft.alpha is None else float(draft.alpha)
        resolved["dropout"] = None if draft.dropout is None else float(draft.dropout)
    if draft.method == "qlora":
        resolved["quantization_bits"] = draft.quantization_bits or 4
    elif draft.method != "serve":
        resolved["quantization_bits"] = None
    if draft.serves:
        resolved |= dict.fromkeys(TRAINING_FIELDS)
        resolved |= {"gradient_accumulation": 1, "gradient_checkpointing": False}
        resolved["sequence_length"] = (draft.prompt_tokens or 0) + (draft.generated_tokens or 0)
    else:
        resolved["prompt_tokens"] = resolved["generated_tokens"] = None
        resolved["optimizer_dtype"] = draft.optimizer_dtype or draft.trainable_dtype
    if draft.has_adapters:
        resolved["master_dtype"] = None
    if draft.weights == "random":
        resolved["revision"] = None
    return Workload(**{**declared, **resolved})


@cache
def expand_modules(modules: str) -> tuple[str, ...]:
    """The projections that `modules` names, in the order of a block. Raises ValueError for a name no block has."""
    wanted = MODULE_SETS.get(modules) or tuple(name.strip() for name in modules.split(","))
    unknown = [name for name in wanted if name not in BLOCK_MODULES]
    if unknown:
        raise ValueError(f"unknown module {unknown[0]!r}: use all, attention, or names among {', '.join(BLOCK_MODULES)}")
    return tuple(name for name in BLOCK_MODULES if name in wanted)


@dataclass(frozen=True, slots=True, kw_only=True)
class Implementation:
    """How a backend is asked to do it. None leaves the choice to the backend, which records what it chose in the run.

    `attention`: `flash` is torch's scaled dot product pinned to its flash kernel, `flash-attn` the package of that name.
    `kernels`: `liger` puts Liger's Triton kernels in place of the architecture's own. `checkpointing`: whose gradient
    checkpointing, torch's or unsloth's, which moves activations to main memory.
    """

    attention: Attention | None = None
    optimizer_kernel: OptimizerKernel | None = None
    quantization_format: QuantizationFormat | None = None
    compile: bool | None = None
    kernels: Kernels | None = None
    checkpointing: Checkpointing | None = None


IMPLEMENTATION_FIELDS: tuple[str, ...] = tuple(f.name for f in fields(Implementation))


@dataclass(frozen=True, slots=True)
class Cell:
    """One workload on one backend and device. `swept` names what else the suite sweeps, for the id."""

    workload: Workload
    backend: BackendName
    device: Device
    implementation: Implementation = field(default_factory=Implementation)
    swept: tuple[tuple[str, Scalar], ...] = ()

    @property
    def id(self) -> str:
        """`<model>/<method>/<backend>@<device>` and each further swept field as `/name=value`."""
        head = f"{self.workload.model.name}/{self.workload.method}/{self.backend}@{self.device}"
        return "".join([head, *(f"/{name}={_text(value)}" for name, value in self.swept)])

    @property
    def key(self) -> str:
        """16 hex digits for the work, the backend, the device and the implementation asked for: the identity for resuming."""
        asked = {name: getattr(self.implementation, name) for name in IMPLEMENTATION_FIELDS}
        return digest_of([self.workload.digest, self.backend, self.device, _without_later(asked)])

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Cell:
        """The inverse of `to_json`, for the worker's side of the pipe."""
        work = dict(data["workload"])
        return cls(
            workload=Workload(**{**work, "model": Model(**work["model"])}),
            backend=data["backend"],
            device=data["device"],
            implementation=Implementation(**data["implementation"]),
            swept=tuple((name, value) for name, value in data["swept"]),
        )


FEWEST_JUDGED_STEPS = 5
"""Fewer steps than these cannot show whether they are steady, so they need a warm-up of fixed length."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measure:
    """How a cell is measured: no part of the work, so no part of its digest.

    Warm-up lasts `warmup_steps` optimizer steps at least and `warmup_max_steps` at most, and ends by the rule of
    `bench.trust.warmup`, for which steps count as steady while they spread by no more than `steady_spread` (a share of their
    median). Its steps are recorded and left out of the medians; `steps` follow. Where both bounds are equal, warm-up has that
    fixed length and nothing is judged. A worker that reports nothing for `event_timeout_s` seconds, or for twenty median steps
    if that is longer, is taken for hung. `order_seed` shuffles the cells.

    Nor is it part of a cell's key: to resume, a run counts as done however many steps it took. Each run records its own numbers
    (`warmup_steps` and `steps` of `runs`), summaries show them, and runs of different numbers of measured steps are never
    divided by one another.
    """

    warmup_steps: Annotated[int, Ge(0), Le(1000)] = 2
    warmup_max_steps: Annotated[int, Ge(0), Le(1000)] = 30
    steady_spread: Annotated[float, Gt(0), Le(1)] = 0.05
    steps: Annotated[int, Ge(1), Le(100_000)] = 10
    event_timeout_s: Annotated[float, Ge(1), Le(86_400)] = 180.0
    order_seed: Annotated[int, Ge(0), Lt(2**32)] = 0


@dataclass(frozen=True, slots=True)
class Exclusion:
    """Cells that match every entry of `where` are left out, for `reason`. Keys are swept or fixed fields."""

    where: tuple[tuple[str, Scalar], ...]
    reason: str


@dataclass(frozen=True, slots=True)
class Arm:
    """One way to do the work, by name: a backend and what is asked of it. Fields that no arm gives are the suite's."""

    name: str
    chosen: tuple[tuple[str, Scalar], ...]


SEARCHED = ("sequence_length", "prompt_tokens", "batch_size")
"""Fields along which a suite may ask for the largest value that fits."""


@dataclass(frozen=True, slots=True)
class Span:
    """The values of a field among which the largest that fits is searched: `least`, then every `step`, up to `most`."""

    field: str
    least: int
    most: int
    step: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Frontier:
    """What a suite asks the edge of, for each of its cells: everything but the field searched stays as the cell has it.

    `model` asks for the largest of the swept models. The edge that short runs found is confirmed by a run of `confirm_steps`
    measured ones.
    """

    spans: tuple[Span, ...] = ()
    model: bool = False
    confirm_steps: Annotated[int, Ge(1), Le(100_000)] = 30


@dataclass(frozen=True, slots=True, kw_only=True)
class Suite:
    """A question, as declared in `suites/<name>.toml`, with its models already resolved.

    `sweep` is an ordered product: names of fields (`model`, `method`, `backend`, or any workload or implementation field)
    with their values. `fixed` gives single values. `models` maps each model name in use to its architecture, `revisions` to
    the revision of its real weights, where a cell has them and one is known. Where there are `arms`, every combination is done by
    each of them: a ladder's rungs are no product of their fields.
    """

    name: str
    question: str
    sweep: tuple[tuple[str, tuple[Scalar, ...]], ...]
    fixed: tuple[tuple[str, Scalar], ...] = ()
    models: tuple[tuple[str, Model], ...] = ()
    revisions: tuple[tuple[str, str], ...] = ()
    arms: tuple[Arm, ...] = ()
    exclude: tuple[Exclusion, ...] = ()
    measure: Measure = field(default_factory=Measure)
    frontier: Frontier | None = None
    repeats: Annotated[int, Ge(1), Le(1000)] = 3
    budget_minutes: Annotated[float, Gt(0), Le(525_600)] | None = None


def _text(value: Scalar) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return str(value)
