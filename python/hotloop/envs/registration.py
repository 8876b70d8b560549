"""Registration of the native envs with Gymnasium, under `hotloop/`, without importing it before the user does."""

import importlib.util
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType

from hotloop import _core


def register_gymnasium() -> None:
    """Register every native env with Gymnasium, except those that are registered already."""
    from gymnasium.envs.registration import register, registry

    for env in _core.list_envs():
        id = f"hotloop/{env['gymnasium_id']}"
        if id not in registry:
            # The core truncates episodes itself (option `max_steps`): no TimeLimit wrapper is needed.
            register(
                id,
                entry_point="hotloop.integrations.gymnasium:NativeEnv",
                vector_entry_point="hotloop.make:make_gymnasium_vec",
                kwargs={"native_name": env["name"]},
            )


def register_when_gymnasium_is_imported() -> None:
    """Register now if Gymnasium is imported, otherwise as soon as it is."""
    if "gymnasium" in sys.modules:
        register_gymnasium()
    else:
        sys.meta_path.insert(0, _Gymnasium)


class _Gymnasium:
    """An import hook that waits for the import of Gymnasium."""

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
