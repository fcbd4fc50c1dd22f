"""A model on this machine, without a key: installed once, checked to the byte, run by ``providers.local``."""

from __future__ import annotations

from orkas.product.local_model.install import install, remove, status, verify
from orkas.product.local_model.pins import QWEN, RUNTIME

__all__ = ["QWEN", "RUNTIME", "install", "remove", "status", "verify"]
