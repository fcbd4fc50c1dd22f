"""The model of this machine, as a child on loopback."""

from orkas.providers.local.provider import InstalledModel, LocalProvider, Manifest, find, installed, models_folder

__all__ = ["InstalledModel", "LocalProvider", "Manifest", "find", "installed", "models_folder"]
