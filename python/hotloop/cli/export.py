"""`hotloop export`: a run's policy for other programs, checked against the policy itself."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hotloop.cli.output import UserError, emit, tell

if TYPE_CHECKING:
    from hotloop.export.blueprint import Blueprint
    from hotloop.export.validation import Check


def export(
    run: Annotated[str, typer.Argument(metavar="RUN", help="A path, a name, the beginning of one, or 'last'.")],
    onnx: Annotated[Path | None, typer.Option(metavar="FILE", help="Write an ONNX model.")] = None,
    torch: Annotated[Path | None, typer.Option(metavar="FILE", help="Write a torch program (torch.export).")] = None,
    trust: Annotated[bool, typer.Option("--trust", help="Allow code named by a run made elsewhere.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object per line.")] = False,
) -> None:
    """Write a run's best policy for programs that know nothing of Hotloop.

    \b
      hotloop export last --onnx policy.onnx
      hotloop export last --torch policy.pt2
      hotloop export runs/mine/checkpoints/131072 --onnx policy.onnx

    Normalisation, masks and memory are inside. The written model is run beside
    the policy itself and compared: --onnx with onnxruntime, where installed.
    """
    if onnx is None and torch is None:
        raise UserError("no output: pass --onnx FILE, --torch FILE or both")
    for path in (onnx, torch):
        if path is not None and not path.absolute().parent.is_dir():
            raise UserError(f"cannot write {path}: there is no folder {path.absolute().parent}")
        if path is not None and path.exists() and not path.is_file():
            raise UserError(f"cannot write {path}: it is not a regular file, so it could not be read back and compared")

    from hotloop.cli import run_lookup
    from hotloop.errors import ConfigError, ExportError, TrainingError
    from hotloop.export import validation
    from hotloop.export.blueprint import Blueprint
    from hotloop.loading import checkpoint_policy
    from hotloop.training.checkpoint import open_policy

    written: dict[str, Any] = {}
    try:
        checkpoint = open_policy(run_lookup.find(run), trust=trust, warn=tell)
        blueprint, agent = Blueprint.of(checkpoint), checkpoint_policy(checkpoint)
        if onnx is not None:
            from hotloop.export.onnx import write_onnx

            write_onnx(onnx, blueprint)
            model = validation.onnx_runtime(onnx)
            written["onnx"] = _report(onnx, None if model is None else validation.check(model, agent, blueprint))
        if torch is not None:
            from hotloop.export.program import write_program

            write_program(torch, blueprint)
            written["torch"] = _report(torch, validation.check(validation.torch_program(torch), agent, blueprint))
    except (ConfigError, ExportError, TrainingError) as error:
        raise UserError(str(error)) from None
    except OSError as error:
        raise UserError(f"cannot write {error.filename or onnx or torch}: {error.strerror or error}") from None
    if as_json:
        emit("end", run=run, path=str(checkpoint.path), env=blueprint.env, steps=blueprint.steps, **written)
        return
    for kind, report in written.items():
        print(_format(kind, report, blueprint))
    if "onnx" in written and written["onnx"]["checked"] is None:
        tell("Not compared with the policy: onnxruntime is not installed (pip install 'hotloop[onnx]').")


def _report(path: Path, check: Check | None) -> dict[str, Any]:
    return {
        "file": str(path),
        "bytes": path.stat().st_size,
        "checked": None if check is None else check.observations,
        "difference": None if check is None else check.difference,
    }


def _format(kind: str, report: dict[str, Any], blueprint: Blueprint) -> str:
    inputs = ["observation"]
    inputs += ["action_mask"] if blueprint.masked else []
    inputs += ["memory"] if blueprint.memory_len else []
    outputs = ["action", "value"]
    outputs += ["logits"] if blueprint.sets else []
    outputs += ["mean", "log_std"] if blueprint.dims else []
    outputs += ["next_memory"] if blueprint.memory_len else []
    line = f"{report['file']}: {blueprint.env} at step {blueprint.steps}, {report['bytes']} bytes, {kind}"
    line += f"\n  in   {', '.join(inputs)}\n  out  {', '.join(outputs)}"
    if report["checked"] is not None:
        line += f"\n  compared on {report['checked']} observations: largest difference {report['difference']:.1e}"
    return line
