"""Adds manual pages, completions and a software bill of materials to the wheel.

The pages and completions are read from build/share, where `make wheel` has written them. A wheel
that is built without them has none.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

# Extras that no user of nftop needs.
_OF_DEVELOPERS = frozenset({"dev", "fuzz"})
SBOM = "nftop.cdx.json"


class CustomBuildHook(BuildHookInterface):  # type: ignore[type-arg,misc]
    """pip installs shared data below the environment's `share`, where man(1) and pipx look.

    The bill of materials is in the wheel's `.dist-info/sboms` (PEP 770).
    """

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Raises ValueError if the pages are of another version of nftop."""
        share = Path(self.root) / "build/share"
        page = share / "man/man1/nftop.1"
        if not page.exists():
            self.app.display_warning("no manual pages and completions in this wheel: `make wheel`")
        elif version == "standard" and f'"nftop {self.metadata.version}"' not in page.read_text():
            raise ValueError(f"{share} is of another version: `make wheel`, or remove that folder")
        for path in sorted(share.rglob("*")):
            if path.is_file():
                inside = path.relative_to(share).as_posix()
                build_data.setdefault("shared_data", {})[str(path)] = f"share/{inside}"
        core = self.metadata.core
        bill = bill_of_materials(
            core.name,
            self.metadata.version,
            core.license_expression,
            core.dependencies,
            core.optional_dependencies,
        )
        # Not in the source tree: `sudo make install` would leave root's files in it.
        self._folder = tempfile.TemporaryDirectory()
        file = Path(self._folder.name) / SBOM
        file.write_text(json.dumps(bill, indent=2) + "\n")
        build_data.setdefault("sbom_files", []).append(str(file))

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:  # noqa: ARG002
        self._folder.cleanup()


def bill_of_materials(
    name: str,
    version: str,
    license_id: str,
    required: Sequence[str],
    optional: Mapping[str, Sequence[str]],
) -> dict[str, Any]:
    """The bill as CycloneDX 1.6, the same for the same metadata: no time, no random number.

    The wheel contains no other project's code. Its dependencies are installed beside it, in the
    newest versions that fit, so that they have a range and no version here.
    """
    ref = f"pkg:pypi/{canonicalize_name(name)}@{version}"
    components = list(_components(required, optional))
    return {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "component": {
                "type": "application",
                "bom-ref": ref,
                "name": name,
                "version": version,
                "purl": ref,
                "licenses": [{"license": {"id": license_id}}],
            },
            "lifecycles": [{"phase": "build"}],
        },
        "components": components,
        "dependencies": [{"ref": ref, "dependsOn": [item["bom-ref"] for item in components]}],
    }


def _components(
    required: Sequence[str], optional: Mapping[str, Sequence[str]]
) -> Iterator[dict[str, Any]]:
    scopes = [("required", "", text) for text in required]
    for extra in sorted(optional.keys() - _OF_DEVELOPERS):
        scopes += [("optional", extra, text) for text in optional[extra]]
    for scope, extra, text in scopes:
        requirement = Requirement(text)
        purl = f"pkg:pypi/{canonicalize_name(requirement.name)}"
        properties = [{"name": "nftop:requirement", "value": text}]
        properties += [{"name": "nftop:extra", "value": extra}] if extra else []
        yield {
            "type": "library",
            "bom-ref": purl,
            "name": requirement.name,
            "scope": scope,
            "purl": purl,
            "properties": properties,
        }
