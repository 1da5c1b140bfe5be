"""The command line: the whole story on one screen.

    doctor     what works here        plan       what a suite would measure
    predict    what a cell will need  frontier   where models stop fitting
    run        measure it             report     write it down
    claims     what holds             advise     which machine to train on
    compact    fewer result files     merge      results of several machines

In: arguments. Out: an exit code (0 done, 2 usage or bad input, 3 a cell failed, 4 results tainted or partly unreadable, 75
another sweep holds the machine, 130 interrupted); with `--json` one JSON document on standard output and nothing else. Messages
and progress go to standard error. Everything heavy is imported inside the command that needs it.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

import click

from bench.quantities import Duration, MemoryShare, Share, Size

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from bench.record import Machine

EXIT_BAD_INPUT, EXIT_TAINTED, EXIT_BUSY, EXIT_INTERRUPTED = 2, 4, 75, 130
CLICK_ABORT = 1


Command = Callable[..., Any]
Decorator = Callable[[Command], Command]


class SuiteName(click.ParamType[str]):
    """The path of a suite file, or the name of one in suites/."""

    name = "suite"

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        from click.shell_completion import CompletionItem

        names = sorted(path.stem for path in Path("suites").glob("*.toml"))
        return [CompletionItem(name) for name in names if name.startswith(incomplete)]


def folder_option(name: str, default: str, text: str) -> Decorator:
    """An option that takes a folder."""
    kind = click.Path(path_type=Path, file_okay=False)
    return click.option(name, type=kind, default=Path(default), show_default=True, help=text)


@contextmanager
def bad_input() -> Iterator[None]:
    """Turn what the user can mend into one clear message and its exit code, never a traceback."""
    from bench.spec import BadInput
    from bench.sweep.lock import MachineBusy

    try:
        yield
    except BadInput as error:
        _fail(str(error), EXIT_BAD_INPUT)
    except MachineBusy as error:
        _fail(str(error), EXIT_BUSY)
    except KeyboardInterrupt:
        _fail("interrupted", EXIT_INTERRUPTED)
    except OSError as error:
        _fail(f"{error.filename or 'file system'}: {error.strerror or error}", EXIT_TAINTED)


def _fail(message: str, code: int) -> None:
    click.echo(message, err=True)
    sys.exit(code)


results_option = folder_option("--results", "results", "Folder of the Parquet files.")
only_option = click.option("--only", metavar="GLOB", help="Only cells whose id matches, e.g. 'llama-3.1-8b/*'; & joins globs.")
repeats_option = click.option("--repeats", type=click.IntRange(1, 1000), help="Runs wanted per cell, instead of the suite's.")
json_option = click.option("--json", "as_json", is_flag=True, help="One JSON document on standard output, nothing else.")
machine_option = click.option("--machine-name", metavar="NAME", help="Call this machine so, whatever its hardware matches.")


memory_limit_option = click.option(
    "--memory-limit", type=Size(), metavar="SIZE", help="Hold every run to this much memory, e.g. 24GB or 22GiB."
)
memory_like_option = click.option(
    "--memory-like", metavar="MACHINE", help="Hold every run to what this machine of the catalogue has: shows fit."
)
memory_watchdog_option = click.option(
    "--memory-watchdog",
    type=MemoryShare(),
    default="95%",
    show_default=True,
    metavar="SHARE",
    help="End a run on unified memory or the CPU when more of the computer's memory is in use; off lets it swap.",
)


try_anyway_option = click.option("--try-anyway", is_flag=True, help="Don't skip what is predicted not to fit.")


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="wingspan")
def cli() -> None:
    """Put machines on trial: which language models can each fine-tune, how fast, in how much memory, at how many watts?"""


@cli.command()
@click.option("--calibrate", is_flag=True, help="Measure products and copies on each device, in a child, and keep the rates.")
@click.option("--support", is_flag=True, help="Look for named techniques in each installed stack, and keep what is found.")
@results_option
@json_option
@machine_option
def doctor(calibrate: bool, support: bool, results: Path, as_json: bool, machine_name: str | None) -> None:
    """What this machine is; which backends and meters work here, which don't, why, and the remedy."""
    from bench import doctor as diagnosis
    from bench import own_rates
    from bench import support as techniques

    with bad_input():
        found = diagnosis.diagnose(_machine(machine_name), calibrate=calibrate, support=support)
        if calibrate:
            own_rates.keep(results, found.machine, found.rates)
        if found.support is not None:
            techniques.keep(results, found.machine, found.support)
    click.echo(json.dumps(found.to_json(), indent=2) if as_json else diagnosis.describe(found))


@cli.command()
@click.argument("suite", type=SuiteName())
@results_option
@only_option
@repeats_option
@click.option("--machine", "profile", metavar="NAME", help="Plan for a machine of the catalogue instead of this one.")
@try_anyway_option
@json_option
def plan(
    suite: str, results: Path, only: str | None, repeats: int | None, profile: str | None, try_anyway: bool, as_json: bool
) -> None:
    """Every cell of SUITE: what would be measured here, what is done, what is skipped and why; and what is predicted of each."""
    from bench import plan as planning
    from bench import store
    from bench.claims import answerable
    from bench.predict.answer import foreteller
    from bench.suite import read_suite

    with bad_input():
        declared, machine = read_suite(suite), _machine(profile=profile)
        stored = store.tallies(results, machine.machine_id, declared.name)
        holes = planning.hole if profile is None else planning.refusal
        planned = planning.plan(
            declared, machine, stored.by_cell, only=only, repeats=repeats, capabilities=holes, durations=stored.durations,
            foretell=foreteller(machine, results=results), try_anyway=try_anyway,
        )  # fmt: skip
        answerable.refuse_gaps()
    click.echo(json.dumps(planned.to_json(), indent=2) if as_json else planning.describe(planned))
    _end(stored.damaged)


@cli.command()
@click.option("--model", required=True, metavar="M", help="A catalogue name, a size such as 8b, or the path of a config.json.")
@click.option("--method", required=True, type=click.Choice(["full", "lora", "qlora", "serve"]), help="What is done with it.")
@click.option("--machine", "profile", metavar="NAME", help="A machine of the catalogue; this computer where not given.")
@click.option("--backend", metavar="B", help="hf, unsloth or mlx, or hf@cpu; mlx on a Mac, hf beside a card where not given.")
@click.option("--batch-size", type=click.IntRange(1, 4096), help="Sequences at a time; 1 where not given.")
@click.option("--sequence-length", type=click.IntRange(2, 2**20), help="Tokens of a sequence in training; 2048.")
@click.option("--gradient-checkpointing/--no-gradient-checkpointing", default=None, help="Compute activations again; on.")
@click.option("--optimizer", type=click.Choice(["adamw", "adamw_8bit", "sgd"]), help="adamw where not given.")
@click.option("--rank", type=click.IntRange(1, 4096), help="Of the adapters; 16.")
@click.option("--modules", metavar="NAMES", help="Adapted: all (default), attention, or names such as q_proj,v_proj.")
@click.option("--adapter-layers", type=click.IntRange(1, 1024), help="Adapt the last so many blocks; all.")
@click.option("--adapter-dtype", type=click.Choice(["float32", "bfloat16", "float16"]), help="float32 where not given.")
@click.option("--quantization-bits", type=click.Choice(["4", "8"]), help="Of what is served; qlora has 4.")
@click.option("--prompt-tokens", type=click.IntRange(1, 2**20), help="Of serving; 512.")
@click.option("--generated-tokens", type=click.IntRange(2, 2**20), help="Of serving; 128.")
@click.option(
    "--how",
    type=click.Choice(["rules", "trace"]),
    default="rules",
    show_default=True,
    help="By closed form, at once; or from the step itself, which imports the framework and takes up to a minute.",
)
@results_option
@json_option
def predict(
    model: str,
    method: str,
    profile: str | None,
    backend: str | None,
    quantization_bits: str | None,
    how: Any,
    results: Path,
    as_json: bool,
    **fields: Any,
) -> None:
    """What a model, method, batch and length need on a machine, and how fast it will be; nothing is run."""
    from bench.backends.interface import UnsupportedError
    from bench.predict import answer, question, told
    from bench.spec import BadInput

    with bad_input():
        machine = question.asked_machine(profile)
        bits = int(quantization_bits) if quantization_bits else None
        cell = question.asked_cell(model, backend, machine, {"method": method, "quantization_bits": bits, **fields})
        try:
            where = answer.place(machine, cell.backend, cell.device, results)
            found = question.with_doubts(answer.predict_at(cell, where, how), cell)
        except UnsupportedError as error:
            raise BadInput(str(error)) from None
    click.echo(json.dumps(found.to_json(), indent=2) if as_json else told.describe(cell, found, machine.name))


@cli.command()
@click.argument("suite", type=SuiteName())
@results_option
@only_option
@repeats_option
@click.option("--budget", "budget_s", type=Duration(), metavar="TIME", help="Start no run after this long, e.g. 2h.")
@click.option(
    "--precision", type=Share(), metavar="P", help="Add runs until each cell's 95% interval is within ±P of its rate, e.g. 2%."
)
@click.option("--no-resume", is_flag=True, help="Measure every cell anew, whatever is stored already.")
@click.option("--strict", is_flag=True, help="Exit with 4 where a run is flagged as doubtful.")
@click.option(
    "--wall-meter",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="CSV",
    help="What a wall meter's logger writes: time and power_w, energy_j, energy_wh or energy_kwh.",
)
@memory_limit_option
@memory_like_option
@memory_watchdog_option
@click.option("--parts", is_flag=True, help="Add one untimed step to each run, and store what each part of its memory takes.")
@try_anyway_option
@machine_option
@json_option
def run(
    suite: str,
    results: Path,
    only: str | None,
    repeats: int | None,
    budget_s: float | None,
    precision: float | None,
    no_resume: bool,
    strict: bool,
    wall_meter: Path | None,
    memory_limit: int | None,
    memory_like: str | None,
    memory_watchdog: float,
    parts: bool,
    try_anyway: bool,
    machine_name: str | None,
    as_json: bool,
) -> None:
    """Measure SUITE here; the same command again goes on where it stopped."""
    from bench.limits import limit_of
    from bench.meters.wall import check_wall_meter
    from bench.progress import observer
    from bench.run import Options, sweep
    from bench.suite import read_suite

    with bad_input():
        declared, machine = read_suite(suite), _machine(machine_name)
        if budget_s is None and declared.budget_minutes is not None:
            budget_s = declared.budget_minutes * 60
        if wall_meter is not None:
            check_wall_meter(wall_meter)
        options = Options(
            results=results,
            only=only,
            repeats=repeats,
            precision=precision,
            budget_s=budget_s,
            resume=not no_resume,
            strict=strict,
            wall_meter=wall_meter,
            limit=limit_of(memory_limit, memory_like),
            watchdog_share=memory_watchdog if memory_watchdog <= 1 else None,
            parts=parts,
            try_anyway=try_anyway,
        )
        with observer() as watching:
            summary = sweep(declared, machine, options, watching)
    if as_json:
        click.echo(json.dumps(summary.to_json(), indent=2))
    click.echo(summary.describe(results), err=True)
    sys.exit(summary.exit_code)


@cli.command()
@results_option
@click.option("--claims", "own", type=click.Path(path_type=Path), metavar="FILE", help="Claims of your own beside the lesson's.")
@json_option
def claims(results: Path, own: Path | None, as_json: bool) -> None:
    """Every claim with its verdict and the evidence for it."""
    from bench.claims import gather, told

    with bad_input():
        found = gather.trial(results, own)
    click.echo(json.dumps(told.document(found.judged), indent=2) if as_json else told.describe(found.judged))
    _end(found.damaged)


@cli.command()
@click.option("--model", required=True, metavar="M", help="A catalogue name, a size such as 8b, or the path of a config.json.")
@click.option("--tokens", required=True, type=click.IntRange(1, 10**15), help="To train on, all epochs together.")
@click.option("--method", type=click.Choice(["full", "lora", "qlora"]), help="All three where not given.")
@click.option("--sequence-length", type=click.IntRange(2, 2**20), help="Tokens of a sequence; 2048.")
@click.option("--batch-size", type=click.IntRange(1, 4096), help="Sequences at a time; 1.")
@click.option("--price-per-kwh", type=float, metavar="P", help="In any currency; 0.2872, euro of EU households in late 2024.")
@click.option("--machine", "machines", multiple=True, metavar="NAME", help="A machine of the catalogue; may be repeated.")
@results_option
@json_option
def advise(
    model: str,
    tokens: int,
    method: str | None,
    price_per_kwh: float | None,
    machines: tuple[str, ...],
    results: Path,
    as_json: bool,
    **declared: Any,
) -> None:
    """Which machine should train this: fit, time, energy and money of each, and on what evidence. Nothing is run."""
    from bench.advise import answer, document, told

    with bad_input():
        question = answer.ask(model, tokens, method=method, machines=machines, price_per_kwh=price_per_kwh, declared=declared)
        found = answer.advise_from(results, question)
    click.echo(json.dumps(document.document(found), indent=2) if as_json else told.describe(found))
    _end(found.damaged)


@cli.command()
@click.argument("suite", type=SuiteName())
@results_option
@only_option
@click.option("--predicted", is_flag=True, help="Say where the edges are predicted, and measure nothing.")
@click.option("--machine", "profile", metavar="NAME", help="With --predicted: for a machine of the catalogue.")
@click.option("--budget", "budget_s", type=Duration(), metavar="TIME", help="Start no run after this long, e.g. 2h.")
@click.option("--no-resume", is_flag=True, help="Try every cell anew, whatever is stored already.")
@memory_limit_option
@memory_like_option
@memory_watchdog_option
@machine_option
@json_option
def frontier(
    suite: str,
    results: Path,
    only: str | None,
    predicted: bool,
    profile: str | None,
    budget_s: float | None,
    no_resume: bool,
    memory_limit: int | None,
    memory_like: str | None,
    memory_watchdog: float,
    machine_name: str | None,
    as_json: bool,
) -> None:
    """The largest sequence, batch and model of SUITE's [frontier] that fit here, by bisection."""
    from bench.frontier.run import find, foretell
    from bench.limits import limit_of
    from bench.plan import hole, refusal
    from bench.predict.answer import chances, foreteller
    from bench.progress import observer
    from bench.run import Options
    from bench.spec import BadInput
    from bench.suite import read_suite

    with bad_input():
        if profile is not None and not predicted:
            raise BadInput("--machine is for --predicted; --memory-like holds the runs of this machine to what another has")
        declared, machine = read_suite(suite), _machine(machine_name, profile)
        limit = limit_of(memory_limit, memory_like)
        if predicted:
            found = foretell(declared, machine, chances(machine, limit), only, hole if profile is None else refusal)
        else:
            options = Options(
                results=results,
                only=only,
                budget_s=budget_s,
                resume=not no_resume,
                limit=limit,
                watchdog_share=memory_watchdog if memory_watchdog <= 1 else None,
            )
            with observer() as watching:
                found = find(declared, machine, options, foreteller(machine, limit, results), watching)
    click.echo(json.dumps(found.to_json(), indent=2) if as_json else str(found))
    sys.exit(found.summary.exit_code)


@cli.command()
@results_option
@folder_option("--out", "reports", "Folder for the HTML page, its Markdown twin and the figures.")
@click.option("--lang", "language", type=click.Choice(["en", "fr", "ro"]), default="en", help="Language of the report.")
@click.option("--claims", "own", type=click.Path(path_type=Path), metavar="FILE", help="Claims of your own beside the lesson's.")
@click.option("--compare", nargs=2, metavar="A B", help="Only these two machines of the results, against each other.")
@click.option("--since", metavar="DATE", help="Only runs started from then on, e.g. 2026-03-01 (UTC).")
@click.option(
    "--readme",
    type=click.Path(path_type=Path, dir_okay=False, exists=True),
    metavar="FILE",
    help="Put the table of verdicts between the markers of this Markdown file, too.",
)
@click.option("--check", is_flag=True, help="With --readme: write nothing, and exit with 2 where its table is stale.")
@json_option
def report(
    results: Path,
    out: Path,
    language: str,
    own: Path | None,
    compare: tuple[str, str] | None,
    since: str | None,
    readme: Path | None,
    check: bool,
    as_json: bool,
) -> None:
    """Write down what holds of the claims and what was measured: HTML, Markdown and figures."""
    from bench.report import chosen
    from bench.report import readme as table
    from bench.report.page import write
    from bench.spec import BadInput

    if not results.is_dir():
        click.echo(f"{results}: no such folder, so no runs are reported; `wingspan run` makes it", err=True)
    with bad_input():
        asked = chosen.Chosen(None if since is None else chosen.moment(since), compare or None)
        if (check and readme is None) or (readme is not None and compare):
            raise BadInput("--check goes with --readme, and --readme not with --compare, which tells no verdicts")
        if check and readme is not None:
            table.refuse_stale(readme, table.judged(results, own))
            return
        written = write(results, out, language, asked, own)
        if readme is not None:
            table.splice(readme, table.of(written.document))
    damaged = [str(each) for each in written.damaged]
    paths = [str(path) for path in written.paths]
    click.echo(json.dumps({"written": paths, "damaged": damaged}, indent=2) if as_json else "\n".join(paths))
    _end(written.damaged)


@cli.command()
@results_option
@folder_option("--out", "reports", "Folder for the score card, prediction.md.")
@click.option(
    "--add",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="CSV",
    help="First import this table of published measurements.",
)
@click.option("--score-only", is_flag=True, help="Leave the calibration as it is; write the score card.")
@json_option
def calibrate(results: Path, out: Path, add: Path | None, score_only: bool, as_json: bool) -> None:
    """Fit the predictor on published rows and own runs, and write down how well it predicts what it was not fitted to."""
    from bench.predict.calibrate import calibrate as fit_and_score

    with bad_input():
        done = fit_and_score(results, out, add=add, keep=not score_only)
    click.echo(json.dumps(done.to_json(), indent=2) if as_json else "\n".join(str(path) for path in done.written))


@cli.command()
@results_option
@json_option
def compact(results: Path, as_json: bool) -> None:
    """Put many small result files into few larger ones, which are read faster."""
    from bench.compact import compact as put_together

    with bad_input():
        done = put_together(results)
    click.echo(json.dumps(done.to_json(), indent=2) if as_json else done.describe())
    _end(done.left)


@cli.command()
@click.argument("folders", nargs=-1, required=True, metavar="DIR...", type=click.Path(path_type=Path))
@results_option
@json_option
def merge(folders: tuple[Path, ...], results: Path, as_json: bool) -> None:
    """Copy the runs of other results folders into one; each run counts once, and the others stay as they are."""
    from bench.merge import merge as take_in

    with bad_input():
        done = take_in(results, folders)
    click.echo(json.dumps(done.to_json(), indent=2) if as_json else done.describe())
    _end(done.damaged)


@cli.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print the completion script: eval "$(wingspan completion bash)"."""
    from click.shell_completion import get_completion_class

    kind = get_completion_class(shell)
    if kind is None:
        raise click.UsageError(f"no completion for {shell}")
    click.echo(kind(cli, {}, "wingspan", "_WINGSPAN_COMPLETE").source())


def _machine(name: str | None = None, profile: str | None = None) -> Machine:
    """This machine, under a name given or found; or a machine of the catalogue."""
    from bench import machine

    return machine.this_machine(name) if profile is None else machine.catalogue_machine(profile)


def _end(damaged: Iterable[object]) -> None:
    """Name the stored files that could not be read, and leave with the fitting code."""
    lines = [str(each) for each in damaged]
    for line in lines:
        click.echo(line, err=True)
    sys.exit(EXIT_TAINTED if lines else 0)


def _interrupted(number: int, frame: FrameType | None) -> None:
    """Outside a sweep nothing is at stake: files appear whole or not at all. So leave at once, whatever is being imported."""
    os.write(2, b"interrupted\n")
    os._exit(EXIT_INTERRUPTED)


def main() -> None:
    """The console script."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _interrupted)
    try:
        cli(prog_name="wingspan")
    except OSError as error:  # what is to be said cannot be written: a full disk
        os.write(2, f"the output cannot be written: {error.strerror}\n".encode())
        os._exit(EXIT_TAINTED)
    except SystemExit as leaving:
        if leaving.code == CLICK_ABORT:  # a closed pipe; 1 means a regression here
            os._exit(EXIT_TAINTED)
        raise
    finally:  # all is said: Python would put the default back while it ends, and a signal in that moment would be the exit code
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_IGN)
