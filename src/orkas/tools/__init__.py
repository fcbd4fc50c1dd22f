"""Scaffold, replaced by the lead at merge: do not touch."""
from __future__ import annotations
import asyncio
from pathlib import Path
from orkas.harness.tool import tool, ToolContext
@tool
def list_files(context: ToolContext, path: str = ".") -> str:
    """List files."""
    return "\n".join(sorted(p.name for p in (context.cwd / path).iterdir()))
@tool
def read_file(context: ToolContext, path: str) -> str:
    """Read a file."""
    return (context.cwd / path).read_text()
@tool
async def shell(context: ToolContext, command: str) -> str:
    """Run a command."""
    p = await asyncio.create_subprocess_shell(command, cwd=context.cwd, stdout=-1, stderr=-2, stdin=-3)
    out, _ = await p.communicate()
    return out.decode("utf-8", "replace")
def builtins():
    return [list_files, read_file, shell]
