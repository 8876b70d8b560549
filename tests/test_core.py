"""The private module keeps to its typed stub; `make lint` compares the two in depth with stubtest."""

import ast
import inspect
from pathlib import Path
from typing import Any

from hotloop import _core

Signature = dict[str, tuple[str, bool]]


def declared(function: ast.FunctionDef) -> Signature:
    arguments = function.args
    positional = [*arguments.posonlyargs, *arguments.args]
    optional = len(arguments.defaults)
    found = {
        argument.arg: ("plain", index >= len(positional) - optional)
        for index, argument in enumerate(positional)
        if argument.arg not in ("self", "cls")
    }
    keywords = zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
    found |= {argument.arg: ("keyword", default is not None) for argument, default in keywords}
    return found | ({arguments.kwarg.arg: ("keywords", False)} if arguments.kwarg else {})


KINDS: dict[Any, str] = {inspect.Parameter.KEYWORD_ONLY: "keyword", inspect.Parameter.VAR_KEYWORD: "keywords"}


def actual(function: Any) -> Signature:
    return {
        name: (KINDS.get(parameter.kind, "plain"), parameter.default is not inspect.Parameter.empty)
        for name, parameter in inspect.signature(function).parameters.items()
        if name != "self"
    }


def test_stub_and_module_agree(repository: Path) -> None:
    stub = ast.parse((repository / "python/hotloop/_core.pyi").read_text())
    functions = {
        node.name: node for node in stub.body if isinstance(node, ast.FunctionDef) and not node.name.startswith("_")
    }
    classes = {
        node.name: node for node in stub.body if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    }
    public = {name for name in dir(_core) if not name.startswith("_")}
    assert functions.keys() | classes.keys() == public
    for name, node in functions.items():
        assert declared(node) == actual(getattr(_core, name)), name
    for name, cls in classes.items():
        native = getattr(_core, name)
        members = {node.name: node for node in cls.body if isinstance(node, ast.FunctionDef)}
        new = members.pop("__new__", None)
        assert members.keys() == {member for member in vars(native) if not member.startswith("_")}
        if new is not None:
            assert declared(new) == actual(native)
        for member, node in members.items():
            if not node.decorator_list:
                assert declared(node) == actual(getattr(native, member)), f"{name}.{member}"
