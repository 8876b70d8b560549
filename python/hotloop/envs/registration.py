"""Puts the native envs into Gymnasium's registry, under `hotloop/`, without importing Gymnasium before others do."""

import importlib.util
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType

from hotloop import _core


def register_gymnasium() -> None:
    """Registers every native env with Gymnasium; those that are there already are left alone."""
    from gymnasium.envs.registration import register, registry

    for env in _core.list_envs():
        id = f"hotloop/{env['gymnasium_id']}"
        if id not in registry:
            # The core ends episodes at their limit itself (option `max_steps`): no TimeLimit wrapper on top.
            register(
                id,
                entry_point="hotloop.integrations.gymnasium:NativeEnv",
                vector_entry_point="hotloop.make:make_gymnasium_vec",
                kwargs={"native_name": env["name"]},
            )


def register_when_gymnasium_is_imported() -> None:
    """Registers now if Gymnasium is there, else as soon as it is imported."""
    if "gymnasium" in sys.modules:
        register_gymnasium()
    else:
        sys.meta_path.insert(0, _Gymnasium)


class _Gymnasium:
    """An import hook that waits for Gymnasium, once."""

    @classmethod
    def find_spec(
        cls, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != "gymnasium":
            return None
        sys.meta_path.remove(cls)
        spec = importlib.util.find_spec(fullname)
        if spec is not None and spec.loader is not None:
            loader = spec.loader
            run = loader.exec_module

            def run_then_register(module: ModuleType) -> None:
                run(module)
                register_gymnasium()

            setattr(loader, "exec_module", run_then_register)  # noqa: B010 - a method of this one loader
        return spec
