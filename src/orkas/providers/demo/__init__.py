"""The offline demo: no language model, and says so."""

from orkas.providers.demo.provider import INTRODUCTION, DemoProvider

__all__ = ["INTRODUCTION", "DemoProvider"]
