"""Types and objects that several resources of the API share."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict

Number = float | None


class ResponseModel(BaseModel):
    """An object of which all properties are always there."""

    model_config = ConfigDict(extra="forbid", json_schema_serialization_defaults_required=True)


class Problem(BaseModel):
    """An error (RFC 9457)."""

    type: str
    title: str
    status: int
    detail: str
    instance: str
    near: list[str] | None = None
    errors: list[dict[str, Any]] | None = None


class Empty(BaseModel):
    """An empty body."""

    model_config = ConfigDict(extra="forbid")


class Accepted(ResponseModel):
    """Work that goes on after the answer."""

    run: str
    what: str
