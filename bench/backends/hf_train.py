"""Training by trl's own `SFTTrainer`, through its public settings and hooks.

In: a model with its adapters in place, a cell, token batches and a session. Out: the session is told when the trainer stands
ready and after each step; the framework's peaks are returned.

What is set differs from trl's defaults where a default would make unequal work: no clipping, no weight decay, a constant
rate, no packing, no shuffling, no autocast unless the workload declares float32 masters. With clipping off, the trainer
still measures the gradient norm for its log, as it does for everyone.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from tempfile import TemporaryDirectory
from typing import Any

from bench.backends import hf_device
from bench.backends.hf_attention import held_to
from bench.backends.hf_build import count_parameters, count_trainable
from bench.backends.hf_parts import Further
from bench.backends.hf_readback import implementation, refuse_fallback
from bench.backends.hf_watch import Feed, Watch, as_callback
from bench.backends.interface import PartsSession, Session, UnsupportedError
from bench.data import Batches
from bench.events import Counters, Loaded
from bench.spec import Cell, Device

ADAM = {"betas": (0.9, 0.999), "eps": 1e-8}
LIGER = {"fused_linear_cross_entropy": False}
"""Liger's layers and not its loss: trl computes head and loss in tiles by itself, and refuses Liger's beside that."""
SPECIAL_TOKENS = ("<pad>", "<eos>", "<unk>")
"""The ids that `bench.data` reserves, in its order."""


def train(
    model: Any,
    cell: Cell,
    batches: Batches,
    session: Session,
    *,
    started_s: float | None = None,
    build_s: float | None = None,
    describe: Callable[[Any, Device], dict[str, str]] = implementation,
) -> Counters:
    """Train `model` in place on `batches`, at most `session.max_steps` optimizer steps.

    `model` comes from `build` and `attach_adapters` and keeps its trained weights. `started_s` is the `time.perf_counter()`
    from which loading counts (None: now), `build_s` what of it building took. `describe` reads the implementation off the trainer
    that stands ready, and may refuse it. Raises UnsupportedError where the stack would do
    the work in another way than asked for, and whatever the framework raises.
    """
    since_s = time.perf_counter() if started_s is None else started_s
    workload = cell.workload
    with TemporaryDirectory(prefix="wingspan-hf-") as folder:
        asks = session if isinstance(session, PartsSession) else None
        trainer = _trainer(model, cell, batches, session.max_steps + (asks is not None), folder)
        further = None if asks is None else Further(trainer, model, cell, asks)
        feed = Feed(trainer.data_collator, workload.gradient_accumulation)
        trainer.data_collator = feed

        def tell_loaded() -> None:
            hf_device.synchronize(cell.device)
            found = describe(trainer, cell.device)
            refuse_fallback(cell.implementation, found)
            session.loaded(
                Loaded(
                    load_s=time.perf_counter() - since_s,
                    parameters=count_parameters(model),
                    trainable_parameters=count_trainable(model),
                    implementation=found,
                    build_s=build_s,
                )
            )

        trainer.add_callback(as_callback(Watch(cell.device, feed, session), tell_loaded, further))
        with held_to(cell.implementation.attention):
            _run(trainer, further)
    before = further.counters if further else None
    return replace(before or hf_device.counters(cell.device), compile_s=_compiled_s(cell))


def _run(trainer: Any, further: Further | None) -> None:
    try:
        trainer.train()
    except Exception as error:  # whatever the further step dies of, the measured ones before it are whole
        if further is None or not further.under_way:
            raise
        further.fail(error)


def _compiled_s(cell: Cell) -> float:
    """Raises UnsupportedError where compiling was asked for and nothing was compiled: such a run is another implementation."""
    asked = bool(cell.implementation.compile)
    taken_s = compile_s(compiling=asked)
    if asked and not taken_s:
        raise UnsupportedError("torch.compile was asked for, and compiled nothing")
    return taken_s


def compile_s(*, compiling: bool) -> float:
    """Seconds that torch's compiler took in this process by its own account, forward and backward; zero where it had no part.

    Traced, lowered and compiled graphs, in wall time, from `torch._dynamo.utils.calculate_time_spent`: no public function of
    torch 2.13 tells the total. Compiling happens within the first steps, so this is a part of their time and not beside it.
    """
    if not compiling:
        return 0.0
    from torch._dynamo.utils import calculate_time_spent

    return float(calculate_time_spent().get("total_wall_time", 0.0))


def _trainer(model: Any, cell: Cell, batches: Batches, max_steps: int, folder: str) -> Any:
    """The trainer around the model as it is: adapters keep the dtype and the values that they came with.

    trl rounds the adapters of a 4-bit model to bfloat16 when it takes them over. Their tensors are kept aside and put back,
    before the optimizer is made from them.
    """
    from datasets import IterableDataset
    from transformers import PrinterCallback
    from trl import SFTTrainer

    kept = {name: parameter.data for name, parameter in model.named_parameters() if parameter.requires_grad}
    trainer = SFTTrainer(
        model=model,
        args=_settings(cell, max_steps, folder),
        train_dataset=IterableDataset.from_generator(_examples, gen_kwargs={"batches": batches}),
        processing_class=bare_tokenizer(),
        optimizer_cls_and_kwargs=_optimizer(cell),
    )
    for name, parameter in trainer.model.named_parameters():
        if name in kept:
            parameter.data = kept[name]
    trainer.remove_callback(PrinterCallback)
    return trainer


def _settings(cell: Cell, max_steps: int, folder: str) -> Any:
    from trl import SFTConfig

    workload = cell.workload
    autocast = workload.weights_dtype if workload.master_dtype else None
    return SFTConfig(
        output_dir=folder,
        max_steps=max_steps,
        per_device_train_batch_size=workload.batch_size,
        gradient_accumulation_steps=workload.gradient_accumulation,
        gradient_checkpointing=workload.gradient_checkpointing,
        gradient_checkpointing_kwargs={"use_reentrant": False} if workload.gradient_checkpointing else None,
        learning_rate=workload.learning_rate,
        lr_scheduler_type="constant",
        max_grad_norm=0.0,
        weight_decay=0.0,
        bf16=autocast == "bfloat16",
        fp16=autocast == "float16",
        torch_compile=bool(cell.implementation.compile),
        use_liger_kernel=cell.implementation.kernels == "liger",
        liger_kernel_config=LIGER if cell.implementation.kernels == "liger" else None,
        packing=False,
        shuffle_dataset=False,
        max_length=None,
        dataset_kwargs={"skip_prepare_dataset": True},
        seed=workload.seed,
        use_cpu=cell.device == "cpu",
        dataloader_pin_memory=cell.device == "cuda",
        logging_steps=1,
        logging_nan_inf_filter=False,
        eval_strategy="no",
        save_strategy="no",
        report_to="none",
        disable_tqdm=True,
    )


def _optimizer(cell: Cell) -> tuple[Any, dict[str, Any]]:
    """The optimizer's class and arguments, weight decay aside, which the trainer sets per group of parameters."""
    import torch

    workload = cell.workload
    if workload.optimizer == "adamw_8bit":
        from bitsandbytes.optim import AdamW

        return AdamW, {"lr": workload.learning_rate, "optim_bits": 8, **ADAM}
    kernel = _kernel(cell)
    if workload.optimizer == "sgd":
        return torch.optim.SGD, {"lr": workload.learning_rate, "momentum": 0.0, **kernel}
    return torch.optim.AdamW, {"lr": workload.learning_rate, **ADAM, **kernel}


def _kernel(cell: Cell) -> dict[str, bool]:
    """Which of torch's optimizer kernels; where none is asked for, the one that torch takes by default on the device."""
    asked = cell.implementation.optimizer_kernel or ("foreach" if cell.device == "cuda" else None)
    return {"foreach": asked == "foreach", "fused": asked == "fused"}


def _examples(batches: Batches) -> Iterator[dict[str, Any]]:
    """One example per sequence, in the order of the data; every position is its own label, shifted by the loss."""
    for ids in batches:
        for row in ids:
            yield {"input_ids": row, "labels": row}


def bare_tokenizer() -> Any:
    """A tokenizer that knows the reserved ids only: the data is tokenised already, so trl asks for the padding id alone."""
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel
    from transformers import PreTrainedTokenizerFast

    pad, eos, unk = SPECIAL_TOKENS
    words = Tokenizer(WordLevel({word: number for number, word in enumerate(SPECIAL_TOKENS)}, unk_token=unk))
    return PreTrainedTokenizerFast(tokenizer_object=words, pad_token=pad, eos_token=eos, unk_token=unk)
