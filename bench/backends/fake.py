"""A backend without a framework, for fast tests of everything around it.

In: a cell whose model has the `model_type` "fake". Out: steps, or requests, that take as long, lose as much and fail as the
model's `config.json` says, so that every ending of a real run can be played through the real processes, pipes and files:

    {"model_type": "fake", "vocab_size": 512, "max_position_embeddings": 4096, "parameters": 1000,
     "step_s": 0.01, "prefill_s": 0.01, "load_s": 0.0, "build_s": 0.0, "peak_bytes": 1000000, "loss": "constant",
     "fail": "oom_device", "fail_at_step": 2, "fits_tokens": 4096}

`step_s`, `prefill_s`, `peak_bytes` and `fits_tokens` are numbers, or lists with one for each step, whose last repeats, or the
path of a file that holds a number: so a stack may get slower while the declared work stays the same. Of
serving a step is one batch of requests: `prefill_s` is its prefill, `step_s` its decode. `build_s` is a part of `load_s`, told
and not waited for. `parts` are those of
memory, by name, told where a run asks for them. The loss falls from step to step, unless `loss` says `constant` or `nan`.
`fail` is an exception's outcome (`oom_device`, `oom_host`, `device_lost`, `unsupported`, `crashed`), or `exit`, `sigkill`,
`sigsegv` (the process ends so), `abort` (it writes `says` to its log and aborts, as C++ does), `hang` (it falls silent), `tokens`
(it trains on other tokens than it was given).
`fail_at_step` 0 fails while loading. A step of more tokens than `fits_tokens` fails by `oom_device`.
"""

from __future__ import annotations

import json
import math
import os
import signal
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from bench.backends.interface import Held, PartsSession, SeenStep, Session
from bench.backends.serving import Answer, seen_request
from bench.data import Batches, TokenDigest, loss_mask
from bench.events import Counters, Loaded, Parts
from bench.record import OUTCOMES, Outcome
from bench.spec import BackendName, Cell, Device


class FakeFault(RuntimeError):
    """A failure played on demand; the message names the outcome it stands for."""


class Fake:
    """The `fake` backend."""

    name: BackendName = "fake"
    devices: tuple[Device, ...] = ("cpu",)
    distributions: tuple[str, ...] = ("numpy",)
    extras: Mapping[Device, str] = {}

    def missing(self, device: Device) -> list[str]:
        return []

    def refuses(self, cell: Cell) -> str | None:
        if cell.workload.model.config.get("model_type") != "fake":
            return "the fake backend only plays models of model_type fake"
        return None

    def prepare(self) -> None:
        return None

    def limit_memory(self, device: Device, capacity_bytes: int) -> Held:
        return Held("accounting")

    def run(self, cell: Cell, batches: Batches, session: Session) -> Counters:
        config = cell.workload.model.config
        self._load(cell, config, session)
        return (_serve if cell.workload.serves else _train)(cell, batches, session, config)

    def fault(self, error: BaseException) -> Outcome | None:
        played = str(error).partition(":")[0]
        return next((outcome for outcome in OUTCOMES if isinstance(error, FakeFault) and outcome == played), None)

    def _load(self, cell: Cell, config: Mapping[str, Any], session: Session) -> None:
        session.progress("loading")
        _play(config, 0)
        time.sleep(config.get("load_s", 0.0))
        parameters = config.get("parameters", 1000)
        trainable = {"full": parameters, "serve": 0}.get(cell.workload.method, 10 * (cell.workload.rank or 1))
        session.loaded(
            Loaded(
                load_s=config.get("load_s", 0.0),
                parameters=parameters,
                trainable_parameters=trainable,
                implementation={"attention": "none"},
                build_s=config.get("build_s", 0.0),
            )
        )


def _train(cell: Cell, batches: Batches, session: Session, config: Mapping[str, Any]) -> Counters:
    began = time.perf_counter()
    end, peak_bytes = began, None
    for step in range(1, session.max_steps + 1):
        _play(config, step, cell.workload.tokens_per_step)
        time.sleep(_at(config.get("step_s", 0.001), step))
        previous, end = end, time.perf_counter()
        seen = _seen(cell, batches, config, step)
        peak_bytes = seen.framework_peak_bytes
        if not session.step(_timed(seen, previous - began, end - previous)):
            break
    if "parts" in config and isinstance(session, PartsSession):
        session.parts(Parts(parts=config["parts"], how="played"))
    return Counters(framework_peak_bytes=peak_bytes, compile_s=0.0)


def _serve(cell: Cell, batches: Batches, session: Session, config: Mapping[str, Any]) -> Counters:
    """Every prompt is answered by zeros."""
    origin_s, peak_bytes = time.perf_counter(), None
    for number in range(1, session.max_steps + 1):
        began_s = time.perf_counter()
        _play(config, number, cell.workload.tokens_per_step)
        time.sleep(_at(config.get("prefill_s", 0.001), number))
        first_s = time.perf_counter()
        time.sleep(_at(config.get("step_s", 0.001), number))
        prompts = batches.ids(number - 1 + _off_by_one(config, number))
        zeros = np.zeros((len(prompts), cell.workload.generated_tokens or 0), np.int64)
        ids, peak_bytes = np.concatenate([prompts, zeros], axis=1), _at(config.get("peak_bytes"), number)
        answer = Answer(ids, prompts.shape[1], began_s, first_s, time.perf_counter())
        if not session.request(seen_request(answer, number, origin_s=origin_s, peak_bytes=peak_bytes)):
            break
    return Counters(framework_peak_bytes=peak_bytes, compile_s=0.0)


def _play(config: Mapping[str, Any], step: int, tokens: int = 0) -> None:
    """Fail now, if the config says so for this step, or for so many tokens."""
    fitting = _at(config.get("fits_tokens"), step)
    if fitting is not None and tokens > fitting:
        raise FakeFault(f"oom_device: {tokens} tokens, and {fitting} fit")
    fail = config.get("fail")
    if fail is None or fail == "tokens" or step != config.get("fail_at_step", 1):
        return
    if fail == "exit":
        os._exit(7)
    if fail == "sigkill":
        os.kill(os.getpid(), signal.SIGKILL)
    if fail == "sigsegv":
        os.kill(os.getpid(), signal.SIGSEGV)
    if fail == "abort":
        os.write(2, f"{config.get('says', '')}\n".encode())
        os.abort()
    if fail == "hang":
        time.sleep(3600)
    raise FakeFault(f"{fail}: played at step {step}")


def _seen(cell: Cell, batches: Batches, config: Mapping[str, Any], step: int) -> SeenStep:
    work = cell.workload
    digest = TokenDigest()
    off_by_one = _off_by_one(config, step)
    for micro in range(work.gradient_accumulation):
        ids = batches.ids((step - 1) * work.gradient_accumulation + micro + off_by_one)
        digest.add(ids, loss_mask(ids))
    return SeenStep(
        step=step,
        start_s=0.0,
        duration_s=0.0,
        tokens=work.tokens_per_step,
        loss_tokens=work.loss_tokens_per_step,
        loss=_loss(config, step),
        framework_peak_bytes=_at(config.get("peak_bytes"), step),
        tokens_digest=digest.hexdigest(),
    )


def _off_by_one(config: Mapping[str, Any], step: int) -> int:
    return 1 if config.get("fail") == "tokens" and step == config.get("fail_at_step", 1) else 0


def _at(play: Any, step: int) -> Any:
    """What is played at a step, counted from 1: the value, the step's own of a list, or what now stands in a file."""
    if isinstance(play, str):
        return json.loads(Path(play).read_text(encoding="utf-8"))
    return play[min(step, len(play)) - 1] if isinstance(play, list) else play


def _loss(config: Mapping[str, Any], step: int) -> float:
    if config.get("loss") == "nan":
        return math.nan
    start = math.log(config.get("vocab_size", 512))
    return start if config.get("loss") == "constant" else start * (1 + math.exp(-step)) / 2


def _timed(seen: SeenStep, start_s: float, duration_s: float) -> SeenStep:
    return replace(seen, start_s=start_s, duration_s=duration_s)
