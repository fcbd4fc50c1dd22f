"""Code that an interpreter reads from a here-document: what in it starts programs, removes files or writes outside the
working folder, by language. A text that the code only holds or prints is data."""

from __future__ import annotations

import re

from orkas.infra.patterns import lazy

__all__ = ["does_more"]

_STARTS = lazy(
    r"os\.system|subprocess|popen|pty\.spawn|os\.exec|os\.spawn|child_process|execSync|\bsystem\b|\bexec\b|backtick"
    r"|shell_exec|passthru|proc_open|`|%x|Process\.|rmtree|unlinkSync|rmSync|__import__|__dict__|__subclasses__|ctypes"
    r"|\bos\.(fork|posix_spawn|exec|startfile)|\beval\s*\(|(?<!\.)\bcompile\s*\(|getattr\s*\(\s*(os|sys|__)|importlib"
    r"|create_subprocess|\bspawn|runpy|\bsyscall\b|removedirs|remove_tree|rm_rf|rm_r\b",
    re.IGNORECASE,
)
"""Starts programs or removes trees, whatever the language."""
_LISP = r"\b(system\*?|run-program|run-shell-command|process\*?|subprocess\*?|execute|shell)\b|delete-(file|directory)"
_JVM = r"ProcessBuilder|getRuntime|\.execute\(|sys\.process|deleteRecursively|\.delete(Dir)?\(|Files\.(delete|move)"
_JS = r"\b(unlink|rm|rmdir|truncate|rmdirSync|truncateSync|dlopen)\s*\(|process\.binding"

_BY_LANGUAGE: dict[str, str] = {
    **dict.fromkeys(["python", "pypy", "ipython"],
        r"\bos\.(unlink|remove|rmdir|truncate)\b|\bshutil\.move\b|\.(unlink|rmdir)\s*\("
        r"|\bfrom\s+(os|shutil)\s+import\b.{0,200}\b(remove|unlink|rmdir|move)\b|^\s*!"
        r"|\bimport\s+(os|shutil)\s+as\b|\bfrom\s+(os|shutil)\s+import\s+\*|\bos\.(dup2|kill|killpg|getppid)\b"),
    **dict.fromkeys(["node", "nodejs", "deno", "bun"], _JS + r"|Deno\.(Command|run|remove)|Bun\.\$"),
    **dict.fromkeys(["ruby", "irb", "pry"],
        r"\bopen\s*\(?\s*[\"']\s*\||\bIO\.\w+\s*\(?\s*[\"']\s*\||Open3|\bPTY\b|\.(send|public_send|instance_eval)\b"
        r"|\b(File|Dir|FileUtils|Pathname)\.(delete|unlink|rm\w*|remove\w*|mv|move|truncate)\b|\.(unlink|rmtree)\b"),
    "perl": r"\bopen\b[^;,]{0,200},\s*([\"']|qq?\W)\s*(\||-\||[^\"']{0,200}\|\s*[\"'}])|\bqx\b"
        r"|readpipe|\b(do|require)\s+[\"'$]|\b(unlink|rmdir|rmtree|truncate|rename)\b(?!\s*=>)",
    "raku": r"\b(shell|run|qx|qqx|unlink|rmdir)\b",
    "php": r"\b(mail|dl|assert|create_function)\s*\(|\bpcntl_|\b(unlink|rmdir|ftruncate)\b",
    **dict.fromkeys(["lua", "luajit"], r"os\.(execute|remove|rename)|loadlib|\bload(string|file)?\s*\(|dofile"),
    **dict.fromkeys(["tclsh", "wish", "expect"],
        r"\bopen\s+[\"{]?\s*(\||(/|~|\.\./)\S*\s+[wa])|\b(eval|source|load|socket)\s|\bfile\s+(delete|rename)\b"),
    "gnuplot": r"^\s*!|\bshell\b|[\"']\s*[<|]|\b(load|call)\s",
    **dict.fromkeys(["r", "rscript"],
        r"\b(system2|shell|shell\.exec|pipe|dyn\.load|source|unlink|file\.(remove|rename))\s*\(|processx|callr"),
    "octave": r"^\s*!|\b(shell_cmd|unix|dos|evalc|source|delete|unlink|rmdir|rename|movefile)\b",
    **dict.fromkeys(["pwsh", "powershell"],
        r"\b(Start-(Process|Job)|Invoke-\w+|iex|Add-Type|Remove-Item|Clear-Content|Move-Item|rm|ri|del|rd|erase)\b|^\s*&"),
    "julia": r"\b(rm|mv|run|pipeline|ccall)\s*\(", "osascript": r"do shell script|\bdelete\b",
    **dict.fromkeys(["guile", "racket", "sbcl", "clisp"], _LISP),
    **dict.fromkeys(["groovy", "jshell", "scala", "kotlin"], _JVM),
    **dict.fromkeys(["elixir", "iex", "erl"], r"System\.|:?os[.:]\s*cmd|open_port|Port\.|\bFile\.(rm|rename)|file:del"),
    **dict.fromkeys(["ghc", "ghci"], r"^\s*:!|System\.Process|callCommand|removeFile|removeDirectory|readProcess"),
    "swipl": r"\b(shell|process_create|delete_file|delete_directory)\b",
}  # fmt: skip
_OF_LANGUAGE = {name: lazy(text, re.IGNORECASE | re.MULTILINE) for name, text in _BY_LANGUAGE.items()}

_NEAR = r"[rbf]?([\"'])(?!\.{0,2}/?\1|/|~|\.\./)[\w./ -]+\1"
_REMOVES_ONE = lazy(
    r"\b(?:(?:os|File|fs)\.)?(?:unlink|remove|delete|rm|unlinkSync|rmSync|rmdir)\s*\(?\s*" + _NEAR + r"\s*[,);\n]"
    r"|\bPath\(" + _NEAR.replace(r"\1", r"\2") + r"\)\.(?:unlink|rmdir)\("
)
"""A call that removes one file of the working folder, which it names: what ``rm`` may do too."""
_OUTSIDE = r"[rbf]?[\"'](?:/(?=\w)(?!tmp/|var/tmp/|dev/(?:null|std|tty|fd))|~|\.\./)"
_WRITES_OUTSIDE = lazy(
    rf"\bopen\s*\(\s*{_OUTSIDE}[^\"']{{0,300}}[\"']\s*,\s*(?:mode\s*=\s*)?[\"'][^\"']{{0,300}}[wax+]"
    rf"|\bPath\(\s*{_OUTSIDE}[^\"']{{0,300}}[\"']\s*\)\S*\.(?:write|touch|mkdir|open|chmod|rename|replace|symlink)"
    rf"|\b(?:(?:write|append|copy)File\w*|createWriteStream|copy(?:tree|2|file)?|cp|cp_r|rename\w*|symlink\w*|mkdir\w*"
    rf"|makedirs|chmod\w*|chown\w*|file_put_contents|(?:os|shutil)\.\w+|File\.write|writeLines)\s*\("
    rf"[^;)\n]{{0,200}}{_OUTSIDE}|\bopen\b[^;\n]{{0,200}}[\"']\s*\+?>+\s*(?:[\"']\s*,\s*{_OUTSIDE}|/|~|\.\./)"
    rf"|\bFile\.(?:open|new|write)\s*\(?\s*{_OUTSIDE}[^\"']{{0,300}}[\"']\s*,",
    re.IGNORECASE,
)
_NAMED_OUTSIDE = lazy(
    r"\b(\w{1,40})\s{0,9}=\s{0,9}[rbf]?[\"'](?:/(?:etc|root|usr|bin|boot|lib|opt|home)\b|~|\.\./)[^\"']{0,300}[\"'][\s\S]{0,500}?"
    r"\b(?:open|writeFile\w*|appendFile\w*|Path)\s*\(\s*\1\s*(?:,\s*(?:mode\s*=\s*)?[\"'][^\"']{0,9}[wax+]|\)\.write)"
)
_HOME = lazy(r"expanduser|\.home\(|homedir\(|Dir\.home|\bENV(?:IRON)?\W{1,6}HOME\b", re.IGNORECASE)
_WRITES = lazy(
    r"\bopen\s*\([^\n]{0,300},\s*(?:mode\s*=\s*)?[\"'][rb]?[wax]|\.write_(?:text|bytes)|(?:write|append)File|File\.write"
)
_UNLINKS = lazy(
    r"unlink|truncate|\b(rmdir|rename|chmod|chown)\b|\b(os|shutil|fs|files?|fileutils|pathname|\w*path)[.\s]*(remove|move|delete)"
    r"|import\b.{0,200}\b(remove|move)\b|(?<![.\w])(remove|move|delete)\b",
    re.IGNORECASE,
)
_ROOT = lazy(
    r"[\"'(]\s*(/[*]?|~[^\"']*|/(etc|usr|bin|boot|home|root|dev|lib|var)\b[^\"']*)[\"')]"
    r"|expanduser|\.home\(|\bHOME\b"
)
"""Together: code that removes or changes files outside the working folder."""


def does_more(language: str, code: str) -> bool:
    """Whether this code starts programs, removes more than it names, or writes outside the working folder."""
    if _STARTS.search(code) or _WRITES_OUTSIDE.search(code) or _NAMED_OUTSIDE.search(code):
        return True
    if (_UNLINKS.search(code) and _ROOT.search(code)) or (_WRITES.search(code) and _HOME.search(code)):
        return True
    own = _OF_LANGUAGE.get(language)
    return own is not None and bool(own.search(_REMOVES_ONE.sub(" ", code)))
