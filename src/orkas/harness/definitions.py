"""One JSON Schema out of several: definitions that stand within move to the top, for references begin there."""

from __future__ import annotations

from typing import Any

from orkas.harness import kinds

__all__ = ["whole"]

_MAPS = frozenset({"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"})
_VALUES = frozenset({"default", "enum", "const", "examples", "required"})
_START = "#/$defs/"


def whole(hint: Any) -> dict[str, Any]:
    """The schema of a type, all its definitions in one ``$defs``. Two different ones of one name stay two.

    Raises:
        TypeError: it, or a type within it, has none.
    """
    hoisted = _Hoisted()
    made: dict[str, Any] = hoisted.schema(kinds.components(hint), {})
    return {**made, "$defs": hoisted.found} if hoisted.found else made


class _Hoisted:
    def __init__(self) -> None:
        self.found: dict[str, Any] = {}
        self._sources: dict[str, Any] = {}

    def schema(self, node: Any, names: dict[str, str]) -> Any:
        """``names``: what the definitions that it refers to are called at the top."""
        if isinstance(node, list):
            return [self.schema(one, names) for one in node]
        if not isinstance(node, dict):
            return node
        if kinds.RECORD in node:
            return self._record(dict(node))
        if isinstance(within := node.get("$defs"), dict):
            names = {**names, **{name: self._name(name, one) for name, one in within.items()}}
            for name, one in within.items():
                self._add(names[name], one, names)
        return {key: self._keyword(key, value, names) for key, value in node.items() if key != "$defs"}

    def _keyword(self, key: str, value: Any, names: dict[str, str]) -> Any:
        if key == "$ref" and isinstance(value, str) and value.startswith(_START):
            name = value.removeprefix(_START)
            return _START + names.get(name, name)
        if key in _VALUES:
            return value
        if key == "discriminator" and isinstance(value, dict):
            ways = {k: self._keyword("$ref", v, names) for k, v in value.get("mapping", {}).items()}
            return {**value, "mapping": ways} if ways else value
        if key in _MAPS and isinstance(value, dict):
            return {name: self.schema(one, names) for name, one in value.items()}
        return self.schema(value, names)

    def _record(self, node: dict[str, Any]) -> dict[str, Any]:
        record = node.pop(kinds.RECORD)
        name = self._name(record.__name__, record)
        if name not in self.found:
            self.found[name] = {}
            within = kinds.components(record.struct)
            inner = within["$defs"].pop(within["$ref"].removeprefix(_START))
            self.found[name] = self.schema({**inner, "$defs": within["$defs"]}, {})
        return {**node, "$ref": _START + name}

    def _name(self, wanted: str, source: Any) -> str:
        """One that nobody else has."""
        name, count = wanted, 1
        while name in self._sources and self._sources[name] != source:
            count += 1
            name = f"{wanted}_{count}"
        self._sources[name] = source
        return name

    def _add(self, name: str, source: Any, names: dict[str, str]) -> None:
        if name not in self.found:
            self.found[name] = {}
            self.found[name] = self.schema(source, names)
