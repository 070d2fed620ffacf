"""Adds manual pages and completions to the wheel, if `make wheel` has written them before."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class CustomBuildHook(BuildHookInterface):  # type: ignore[type-arg,misc]
    """pip installs them below the environment's `share`, where man(1) and pipx look."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:  # noqa: ARG002
        share = Path(self.root) / "build/share"
        for path in sorted(share.rglob("*")):
            if path.is_file():
                inside = path.relative_to(share).as_posix()
                build_data.setdefault("shared_data", {})[str(path)] = f"share/{inside}"
