"""Which commands the block list denies, and which ones only a person can judge.

Every simple command of the tree is looked at, however deep: in lists, pipelines, substitutions, here-documents of
shells, strings that a shell or a wrapper runs. A finding is ``deny`` (the block list) or ``ask`` (what the command
does cannot be told from its text, or reaches beyond the working folder).
"""

from __future__ import annotations

import fnmatch
import posixpath
import re
from collections.abc import Callable
from typing import Literal

from orkas.harness.command import Group, NotUnderstood, Pipeline, Redirect, Script, Simple, Sub, Var, Word, parse
from orkas.harness.words import HOME, Arg, Scope, arguments, one_text, printed

__all__ = ["Judge"]

Level = Literal["ask", "deny"]

_PRIVILEGE = frozenset({
    "sudo", "su", "doas", "pkexec", "sudoedit", "visudo", "run0", "runuser", "gksu", "gksudo", "kdesu", "kdesudo", "please",
    "sudo-rs", "su-rs", "dzdo", "sux",
})  # fmt: skip
_HALT = frozenset({"shutdown", "reboot", "halt", "poweroff", "telinit", "kexec"})
_DISK = frozenset({
    "wipefs", "fdisk", "sfdisk", "cfdisk", "gdisk", "sgdisk", "parted", "blkdiscard", "mke2fs", "mkswap", "badblocks",
    "hdparm", "cryptsetup", "pvcreate", "vgremove", "lvremove", "zpool", "mkdosfs", "mkntfs", "newfs", "diskutil",
})  # fmt: skip
_SHELLS = frozenset({"sh", "bash", "dash", "zsh", "ksh", "mksh", "ash", "rbash", "fish", "yash", "pdksh", "csh", "tcsh"})
_INTERPRETERS = re.compile(r"(python|pypy|perl|ruby|node|nodejs|deno|bun|php|lua|tclsh|rscript|julia|pwsh|osascript|expect|guile|groovy|jshell)[\d.]*$")
_CODE_FLAGS = {"perl": "eE", "ruby": "e", "node": "ep", "nodejs": "ep", "php": "rRB", "lua": "e", "bun": "e", "julia": "eE",
               "osascript": "e", "rscript": "e", "groovy": "e", "guile": "c", "deno": ""}  # fmt: skip
_TOP = frozenset(
    "/bin /boot /dev /etc /home /lib /lib32 /lib64 /media /mnt /opt /proc /root /run /sbin /srv /sys /usr /var /nix /snap"
    " /Applications /Library /System /Users /Volumes /private /private/etc /private/var /usr/bin /usr/lib /usr/local"
    " /usr/sbin /usr/share /var/lib /var/log".split()
)
_SCRATCH = ("/tmp/", "/var/tmp/", "/private/tmp/")  # noqa: S108 - what commands may name, not where we write
_BLOCK_DEVICE = re.compile(
    r"/dev/(sd[a-z]|hd[a-z]|vd[a-z]|xvd[a-z]|nvme|mmcblk|loop\d|md\d|dm-|mapper/|disk|rdisk|sr\d|ram\d|nbd|zd\d|mem$|kmem$|port$|\*|\?|\[)"
)
_RISKY_VARIABLES = re.compile(
    r"(LD_|DYLD_|BASH_ENV$|ENV$|PATH$|SHELLOPTS$|BASHOPTS$|PROMPT_COMMAND$|PS4$|IFS$|PYTHON(STARTUP|PATH|HOME|INSPECT|WARNINGS|BREAKPOINT)$"
    r"|PERL5|RUBYOPT$|RUBYLIB$|NODE_OPTIONS$|JAVA_TOOL_OPTIONS$|_JAVA_OPTIONS$|GIT_(SSH|SSH_COMMAND|EDITOR|PAGER|EXTERNAL_DIFF|ASKPASS"
    r"|CONFIG|PROXY_COMMAND|EXEC_PATH|SEQUENCE_EDITOR|TEMPLATE_DIR|DIR$)|PAGER$|MANPAGER$|EDITOR$|VISUAL$|BROWSER$|LESSOPEN$|LESSCLOSE$"
    r"|SSH_ASKPASS|SUDO_ASKPASS|TAR_OPTIONS$|MAKEFLAGS$|ORKAS_)"
)
_READERS = frozenset(
    "cat ls head tail less more grep rg egrep fgrep wc file stat chmod test [ md5sum sha256sum diff cmp bat od xxd touch"
    " shellcheck rm".split()
)
_SPAWNS = re.compile(
    r"os\.system|subprocess|popen|pty\.spawn|os\.exec|os\.spawn|child_process|execSync|\bsystem\b|\bexec\b|backtick|shell_exec"
    r"|passthru|proc_open|`|%x|Process\.|rmtree|unlinkSync|rmSync",
    re.IGNORECASE,
)
_INVISIBLE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff\U000e0000-\U000e007f]")
_LONG = 10_000
MAX_NESTED = 12


class Judge:
    """Collects what speaks against a command. ``findings`` in the order of discovery, each reason once."""

    def __init__(self) -> None:
        self.findings: list[tuple[Level, str]] = []
        self._nested = 0
        self._function_names: list[str] = []
        self._calls: list[str] = []

    def text(self, command: str, scope: Scope | None = None) -> None:
        """Judge the text of a command line."""
        scope = scope or Scope()
        if self._nested > MAX_NESTED:
            self._ask("it is nested too deep to be judged")
            return
        if _INVISIBLE.search(command):
            self._ask("it holds control or invisible characters")
        try:
            script = parse(command)
        except (NotUnderstood, RecursionError) as odd:
            self._ask(f"it could not be understood ({odd})")
            return
        self._nested += 1
        self._script(script, scope)
        self._nested -= 1

    def deny(self, reason: str) -> None:
        self._add("deny", reason)

    def _ask(self, reason: str) -> None:
        self._add("ask", reason)

    def _add(self, level: Level, reason: str) -> None:
        if (level, reason) not in self.findings:
            self.findings.append((level, reason))

    # the tree

    def _script(self, script: Script, scope: Scope) -> None:
        for pipeline in script:
            self._pipeline(pipeline, scope)

    def _pipeline(self, pipeline: Pipeline, scope: Scope) -> None:
        alone = len(pipeline.commands) == 1
        for i, command in enumerate(pipeline.commands):
            inner = scope if alone else scope.copy()
            stdin = None if i == 0 else _Stdin([Pipeline(pipeline.commands[:i])])
            if isinstance(command, Simple):
                self._simple(command, inner, stdin)
            else:
                self._group(command, inner, stdin)
            scope.written |= inner.written
        self._look_for_bomb(pipeline)

    def _look_for_bomb(self, pipeline: Pipeline) -> None:
        """A function that starts itself more than once, or in the background, at the same time."""
        if not self._function_names:
            return
        name = self._function_names[-1]
        selves = sum(1 for c in pipeline.commands if isinstance(c, Simple) and _plain(c.words[:1]) == name)
        if selves > 1 or (selves and (pipeline.background or len(pipeline.commands) > 1)):
            self.deny(f"a fork bomb: {name} starts itself again and again")

    def _group(self, group: Group, scope: Scope, stdin: _Stdin | None) -> None:
        for word in group.words:
            self._substitutions(word, scope)
        self._redirects(group.redirects, scope)
        if group.kind == "function":
            self._function(group, scope)
        elif group.kind == "for":
            self._for(group, scope)
        elif group.kind == "{":
            self._script(group.bodies[0], scope)
        else:
            before = scope.copy()
            inner = scope.copy() if group.kind == "(" else scope
            for body in group.bodies:
                self._script(body, inner)
            scope.written |= inner.written
            scope.doubt(before)
        if stdin and any(_reads_commands(b) for b in group.bodies):
            self._fed(stdin, scope)

    def _function(self, group: Group, scope: Scope) -> None:
        body = group.bodies[0]
        self._function_names.append(group.name)
        inner = scope.copy()
        inner.positional = True
        self._script(body, inner)
        scope.written |= inner.written
        self._function_names.pop()
        scope.functions[group.name] = body

    def _for(self, group: Group, scope: Scope) -> None:
        before = scope.copy()
        values = arguments(group.words, scope) if group.name else []
        if len(values) > 50 or not values or any(v.pattern for v in values):
            values = [*values[:50], Arg("", False)]
        for value in values:
            if group.name:
                scope.variables[group.name] = value
            self._script(group.bodies[0], scope)
        scope.doubt(before)

    def _substitutions(self, word: Word, scope: Scope) -> None:
        for part in word:
            if isinstance(part, Sub):
                self._script(part.script, scope.copy())
            elif isinstance(part, Var):
                self._substitutions(part.operand, scope)

    def _redirects(self, redirects: list[Redirect], scope: Scope) -> None:
        for redirect in redirects:
            self._substitutions(redirect.target, scope)
            if redirect.operator in ("<", "<<", "<<-", "<<<", "<&"):
                continue
            target = one_text(redirect.target, scope)
            self._writes(target, scope)

    def _writes(self, target: Arg, scope: Scope) -> None:
        """A command line that writes to this file."""
        path = scope.path(target.text) if target.text else None
        if path and _BLOCK_DEVICE.match(path):
            self.deny(f"it writes to the device {path}")
        elif path and path.startswith(("/etc/", "/boot/", "/usr/", "/bin/", "/sbin/", "/lib", "/sys/", "/proc/sys", "/root/")):
            self._ask(f"it writes to {path}, which belongs to the system")
        elif path and path.startswith(HOME + "/"):
            self._ask(f"it writes to {_shown(path)}, outside the working folder")
        if path:
            scope.written.add(path)

    # one command

    def _simple(self, command: Simple, scope: Scope, stdin: _Stdin | None) -> None:
        for _, words in command.assignments:
            for word in words:
                self._substitutions(word, scope)
        for word in command.words:
            self._substitutions(word, scope)
        self._redirects(command.redirects, scope)
        stdin = _stdin_of(command, scope) or stdin
        try:
            args = arguments(command.words, scope)
        except NotUnderstood as odd:
            self._ask(f"it could not be understood ({odd})")
            return
        self._assigned(command, scope, args)
        if args:
            self.run(args, scope, stdin)

    def _assigned(self, command: Simple, scope: Scope, args: list[Arg]) -> None:
        for name, words in command.assignments:
            plain = name.removesuffix("[]")
            value = one_text(words[0], scope) if len(words) == 1 and plain == name else Arg("", False)
            if _RISKY_VARIABLES.match(plain):
                self._ask(f"it sets {plain}, which can change what later programs run")
            if not args or args[0].text in ("export", "declare", "local", "readonly", "typeset"):
                scope.variables[plain] = value

    def run(self, args: list[Arg], scope: Scope, stdin: _Stdin | None = None) -> None:
        """Judge a program with its arguments; ``stdin`` is what is fed to it."""
        head, rest = args[0], args[1:]
        name = head.program
        if self._nested > MAX_NESTED:
            self._ask("it is nested too deep to be judged")
            return
        if head.pattern and head.text not in ("[", "?"):
            self._pattern_as_program(name)
        if not head.sure:
            self._ask("which program it runs is known only when it runs")
            if not name and rest:
                self.run(rest, scope, stdin)
                return
        if head.text in scope.functions:
            self._call(head.text, scope)
            return
        self._own_script(head, scope)
        self._nested += 1
        self._named(name, rest, scope, stdin)
        self._nested -= 1

    def _pattern_as_program(self, name: str) -> None:
        known = _PRIVILEGE | _HALT | _DISK | {"rm", "dd", "mkfs"}
        if any(fnmatch.fnmatchcase(k, name) for k in known):
            self.deny(f"the pattern {name} can stand for a blocked program")
        else:
            self._ask("the name of the program is a pattern")

    def _call(self, name: str, scope: Scope) -> None:
        if name in self._calls:
            return
        self._calls.append(name)
        inner = scope.copy()
        inner.positional = True
        self._script(scope.functions[name], inner)
        self._calls.pop()

    def _own_script(self, head: Arg, scope: Scope) -> None:
        if "/" in head.text and scope.path(head.text) in scope.written:
            self._ask(f"it runs {head.text}, which it has just written")

    def _named(self, name: str, rest: list[Arg], scope: Scope, stdin: _Stdin | None) -> None:
        if name in _PRIVILEGE:
            self.deny(f"{name} runs commands with the rights of another user")
        elif name in _HALT:
            self.deny(f"{name} stops or restarts the machine")
        elif name.startswith("mkfs") or (name in _DISK and _changes_disk(rest)):
            self.deny(f"{name} overwrites a disk")
        elif name in _SHELLS:
            self._shell(rest, scope, stdin)
        elif _INTERPRETERS.match(name):
            self._interpreter(name, rest, scope, stdin)
        elif rule := _RULES.get(name):
            rule(self, name, rest, scope, stdin)
        if name not in _READERS:
            scope.written |= {p for a in rest if (p := _file_written(name, a, scope))}

    # programs that run what they are given

    def _shell(self, rest: list[Arg], scope: Scope, stdin: _Stdin | None) -> None:
        """``sh``, ``sh -c TEXT``, ``sh FILE``."""
        code = from_input = False
        i = 0
        while i < len(rest) and rest[i].text[:1] in ("-", "+") and len(rest[i].text) > 1:
            flag = rest[i].text
            if flag in ("--rcfile", "--init-file"):
                self._ask("it loads a start-up file of its own")
                i += 1
            elif flag == "--":
                i += 1
                break
            elif not flag.startswith("--"):
                code = code or "c" in flag
                from_input = from_input or "s" in flag
                i += flag.endswith(("o", "O"))
            i += 1
        rest = rest[i:]
        if code:
            self._string(rest[0] if rest else Arg("", False), scope)
        elif rest and not from_input and rest[0].text not in ("-", "/dev/stdin", "/dev/fd/0", "/proc/self/fd/0"):
            self._script_file(rest[0], scope)
        elif stdin:
            self._fed(stdin, scope)

    def _string(self, arg: Arg, scope: Scope) -> None:
        """A text that a shell runs."""
        if not arg.sure:
            self._ask("a shell runs a text that is known only when it runs")
        inner = scope.copy()
        inner.positional = True
        self.text(arg.text, inner)
        scope.written |= inner.written

    def _script_file(self, file: Arg, scope: Scope) -> None:
        if not file.sure or file.text.startswith(("/dev/fd/", "/dev/tcp/", "/proc/")):
            self._ask("a shell runs a file that is known only when it runs")
        elif scope.path(file.text) in scope.written:
            self._ask(f"it runs {file.text}, which it has just written")

    def _fed(self, stdin: _Stdin, scope: Scope) -> None:
        """A shell that runs its input."""
        text = stdin.text(scope)
        if text is None:
            self._ask("a shell runs what another program prints or a file holds")
        else:
            self._string(Arg(text), scope)

    def _interpreter(self, name: str, rest: list[Arg], scope: Scope, stdin: _Stdin | None) -> None:
        base = re.sub(r"[\d.]+$", "", name)
        flags = _CODE_FLAGS.get(base, "c")
        for i, arg in enumerate(rest):
            text = arg.text
            if text in ("--eval", "--print", "--run", "eval", "-Command", "-EncodedCommand") or (
                re.fullmatch(r"-[A-Za-z]+", text) and any(c in flags for c in text[1:])
            ):
                self._ask(f"{base} runs code from the command line")
                return
            if text.startswith("-") and text not in ("-", "-m"):
                continue
            if text == "-m" or (base == "deno" and i == 0):
                return
            if text not in ("-", "/dev/stdin"):
                self._script_file(arg, scope)
                return
            break
        if stdin is None or any(a.text in ("--version", "-V", "-v", "--help", "-h") for a in rest):
            return
        code = stdin.text(scope) if stdin.is_document else None
        if code is None:
            self._ask(f"{base} runs what another program prints or a file holds")
        elif _SPAWNS.search(code):
            self._ask(f"{base} runs code that starts programs or removes files")

    def wrapper(self, name: str, rest: list[Arg], scope: Scope, stdin: _Stdin | None) -> None:
        """A program whose arguments are, after its own, another command."""
        takes = _WRAPPERS[name]
        i = 0
        while i < len(rest):
            text = rest[i].text
            if text == "--":
                i += 1
                break
            if not text.startswith("-") or text == "-":
                if name in ("env", "busybox") and re.match(r"[A-Za-z_]\w*=", text):
                    self._environment(text)
                    i += 1
                    continue
                break
            if name == "env" and (found := re.match(r"(?:-[iv0]*S|--split-string)=?(.*)", text, re.DOTALL)):
                inside = found.group(1) or (rest[i + 1].text if i + 1 < len(rest) else "")
                self._string(Arg(" ".join([inside, *(a.text for a in rest[i + (2 if not found.group(1) else 1) :])])), scope)
                return
            if name == "command" and text in ("-v", "-V"):
                return
            i += 2 if text in takes and "=" not in text else 1
        i += _POSITIONALS.get(name, 0)
        if i < len(rest):
            self.run(rest[i:], scope, stdin)

    def _environment(self, assignment: str) -> None:
        name = assignment.partition("=")[0]
        if _RISKY_VARIABLES.match(name):
            self._ask(f"it sets {name}, which can change what later programs run")

    def xargs(self, name: str, rest: list[Arg], scope: Scope, stdin: _Stdin | None) -> None:
        i = 0
        takes = ("-I", "-n", "-L", "-P", "-s", "-d", "-E", "-a", "--max-args", "--max-procs", "--delimiter", "--arg-file",
                 "--replace", "--max-lines", "-J", "-R", "-S", "-j", "--jobs")  # fmt: skip
        while i < len(rest) and rest[i].text.startswith("-"):
            i += 2 if rest[i].text in takes else 1
        if i >= len(rest):
            if name == "parallel":
                self._ask("parallel runs lines that another program prints")
            return
        inner = rest[i:]
        fed = _words_fed(stdin, scope)
        if fed is None:
            self._unknown_arguments(inner[0].program)
            fed = [Arg("", False)] if inner[0].program in ("rm", "sh", "bash", "env") else []
        self.run([*inner, *fed], scope)

    def _unknown_arguments(self, program: str) -> None:
        if program in ("rm", "rmdir", "unlink", "shred", "mv", "dd", "chmod", "chown") or program in _SHELLS:
            self._ask(f"{program} gets its arguments from another program")

    def eval(self, name: str, rest: list[Arg], scope: Scope, stdin: _Stdin | None) -> None:
        if not rest:
            return
        if not all(a.sure for a in rest):
            self._ask("eval runs a text that is known only when it runs")
        self.text(" ".join(a.text for a in rest), scope)

    def source(self, name: str, rest: list[Arg], scope: Scope, stdin: _Stdin | None) -> None:
        if rest and rest[0].text in ("/dev/stdin", "-") and stdin:
            self._fed(stdin, scope)
        elif rest:
            self._script_file(rest[0], scope)

    def trap(self, name: str, rest: list[Arg], scope: Scope, stdin: _Stdin | None) -> None:
        if rest and rest[0].text not in ("-", "-l", "-p", ""):
            self._string(rest[0], scope)

    def alias(self, name: str, rest: list[Arg], scope: Scope, stdin: _Stdin | None) -> None:
        for arg in rest:
            if "=" in arg.text:
                self._ask("an alias changes what a later word runs")
                self.text(arg.text.partition("=")[2], scope.copy())

    def find(self, name: str, rest: list[Arg], scope: Scope, stdin: _Stdin | None) -> None:
        texts = [a.text for a in rest]
        first = next((i for i, t in enumerate(texts) if t.startswith("-") or t in ("(", "!")), len(rest))
        roots, tests = rest[:first] or [Arg(".")], rest[first:]
        words = [a.text for a in tests]
        for flag in ("-exec", "-execdir", "-ok", "-okdir", "-x", "-X", "--exec", "--exec-batch"):
            for i, word in enumerate(words):
                if word == flag:
                    stop = next((j for j in range(i + 1, len(words)) if words[j] in (";", "+")), len(words))
                    self._find_runs(tests[i + 1 : stop], roots, len(words) > stop - i + 2, scope)
        if "-delete" in words:
            self._removes(roots, scope, "find -delete", narrow=len(words) > 1)
        for flag in ("-fprint", "-fprintf", "-fls", "-fprint0"):
            if flag in words[:-1]:
                self._writes(tests[words.index(flag) + 1], scope)

    def _find_runs(self, command: list[Arg], roots: list[Arg], narrow: bool, scope: Scope) -> None:
        if not command:
            return
        if command[0].program in ("rm", "shred", "chmod", "chown", "mv"):
            self._removes(roots, scope, f"find and {command[0].program}", narrow=narrow)
        self.run([a for a in command if a.text != "{}"], scope)

    # programs that destroy

    def rm(self, name: str, rest: list[Arg], scope: Scope, stdin: _Stdin | None) -> None:
        flags, targets = _flags_and_targets(rest)
        if "--no-preserve-root" in flags:
            self.deny("it removes everything, the root folder included")
        recursive = any(re.fullmatch(r"-[a-zA-Z]*[rR][a-zA-Z]*", f) or "--recursive".startswith(f) and len(f) > 2 for f in flags)
        if recursive:
            self._removes(targets, scope, "rm", narrow=False)
        elif any(not a.sure and not a.text for a in rest) and any(_is_vital(scope.path(t.text)) for t in targets):
            self._removes(targets, scope, "rm", narrow=False)

    def on_tree(self, name: str, rest: list[Arg], scope: Scope, stdin: _Stdin | None) -> None:
        """``chmod -R`` and the like: the first argument is no path."""
        flags, targets = _flags_and_targets(rest)
        if any(re.fullmatch(r"-[a-zA-Z]*R[a-zA-Z]*", f) or f == "--recursive" for f in flags):
            self._removes(targets[1:], scope, f"{name} -R", narrow=True)

    def mv(self, name: str, rest: list[Arg], scope: Scope, stdin: _Stdin | None) -> None:
        _, targets = _flags_and_targets(rest)
        self._removes(targets[:-1], scope, name, narrow=True)
        if targets:
            self._writes(targets[-1], scope)

    def _removes(self, targets: list[Arg], scope: Scope, what: str, *, narrow: bool) -> None:
        """``narrow``: only part of what is below the targets goes."""
        for target in targets:
            path = scope.path(target.text) if target.text else None
            if not target.sure:
                self._ask(f"{what}: what it touches is known only when it runs")
            elif path is None:
                self._ask(f"{what}: where it works is not known")
            elif _is_vital(path):
                self.deny(f"{what} would destroy {_shown(target.text)}")
            elif not narrow and path in (".", "*", "./*", ".*"):
                self._ask(f"{what} would remove everything in the working folder")
            elif path == ".." or path.startswith("../") or (path.startswith("/") and not path.startswith(_SCRATCH)):
                self._ask(f"{what} reaches outside the working folder: {_shown(target.text)}")
        if not targets:
            return

    def dd(self, name: str, rest: list[Arg], scope: Scope, stdin: _Stdin | None) -> None:
        for arg in rest:
            if arg.text.startswith("of="):
                if not arg.sure:
                    self._ask("where dd writes is known only when it runs")
                self._writes(Arg(arg.text[3:], arg.sure), scope)

    def writer(self, name: str, rest: list[Arg], scope: Scope, stdin: _Stdin | None) -> None:
        """``tee``, ``cp`` and others that write to the files they are given."""
        _, targets = _flags_and_targets(rest)
        for target in targets if name in ("tee", "shred", "truncate", "sponge") else targets[-1:]:
            self._writes(target, scope)
        if name == "rsync" and any(a.text.startswith("--del") for a in rest):
            self._removes(targets[-1:], scope, "rsync --delete", narrow=True)
        if name == "rsync" and any(a.text in ("-e", "--rsh") or a.text.startswith(("--rsh=", "--rsync-path")) for a in rest):
            self._ask("rsync starts a program that it is given")

    def systemctl(self, name: str, rest: list[Arg], scope: Scope, stdin: _Stdin | None) -> None:
        verbs = {"poweroff", "reboot", "halt", "kexec", "soft-reboot", "suspend", "hibernate", "rescue", "emergency", "exit"}
        verb = next((a.text for a in rest if not a.text.startswith("-")), "")
        if verb in verbs:
            self.deny(f"{name} {verb} stops or restarts the machine")

    def init(self, name: str, rest: list[Arg], scope: Scope, stdin: _Stdin | None) -> None:
        if rest and rest[0].text in ("0", "6", "1", "s", "S"):
            self.deny("init changes the run level of the machine")

    # programs with a way to run others

    def shady_flags(self, name: str, rest: list[Arg], scope: Scope, stdin: _Stdin | None) -> None:
        pattern = _SHADY[name]
        if any(pattern.search(a.text) for a in rest):
            self._ask(f"{name} is told to run another program")
        if name == "git" and _git_destroys([a.text for a in rest]):
            self._ask("git is told to throw work away")

    def always_ask(self, name: str, rest: list[Arg], scope: Scope, stdin: _Stdin | None) -> None:
        if not any(a.text in ("--help", "--version", "-h", "-V") for a in rest):
            self._ask(_ALWAYS[name])
        for i, arg in enumerate(rest):
            if name in ("ssh", "chroot", "nsenter", "unshare", "docker", "podman") and arg.program in _PRIVILEGE | _HALT:
                self.run(rest[i:], scope, stdin)
                return

    def reads_names(self, name: str, rest: list[Arg], scope: Scope, stdin: _Stdin | None) -> None:
        """``read``, ``mapfile``, ``printf -v``: variables get values from elsewhere."""
        if name == "printf" and (len(rest) < 2 or rest[0].text != "-v"):
            return
        names = [rest[1].text] if name == "printf" else [a.text for a in rest if a.text.isidentifier()]
        for variable in names:
            scope.variables[variable] = Arg("", False)

    def set(self, name: str, rest: list[Arg], scope: Scope, stdin: _Stdin | None) -> None:
        scope.positional = scope.positional or any(not a.text.startswith(("-", "+")) or a.text == "--" for a in rest)

    def cd(self, name: str, rest: list[Arg], scope: Scope, stdin: _Stdin | None) -> None:
        target = next((a for a in rest if a.text == "-" or not a.text.startswith("-")), Arg(HOME))
        known = target.sure and target.text and target.text != "-" and not target.pattern and name != "popd"
        scope.cwd = scope.path(target.text) if known else None


class _Stdin:
    """What a command reads."""

    def __init__(self, script: Script | None = None, word: Word | None = None) -> None:
        self._script_before = script
        self._word = word

    @property
    def is_document(self) -> bool:
        return self._word is not None

    def text(self, scope: Scope) -> str | None:
        """The input itself, where the text tells."""
        if self._word is not None:
            value = one_text(self._word, scope)
            return value.text if value.sure else None
        return printed(self._script_before, scope) if self._script_before else None


def _stdin_of(command: Simple, scope: Scope) -> _Stdin | None:
    for redirect in reversed(command.redirects):
        if redirect.operator in ("<<", "<<-", "<<<"):
            return _Stdin(word=redirect.target)
        if redirect.operator == "<" and one_text(redirect.target, scope).text != "/dev/null":
            return _Stdin()
    return None


def _words_fed(stdin: _Stdin | None, scope: Scope) -> list[Arg] | None:
    """Arguments that xargs makes of its input; None: not known."""
    text = stdin.text(scope) if stdin else None
    return None if text is None else [Arg(word) for word in text.split()]


def _reads_commands(body: Script) -> bool:
    """A compound command that has a shell in it, which would run what is fed to the whole."""
    return any(
        isinstance(c, Simple) and posixpath.basename(_plain(c.words[:1])).lower() in _SHELLS and len(c.words) == 1
        for p in body
        for c in p.commands[:1]
    )


def _plain(words: list[Word]) -> str:
    return "".join(p.text for w in words for p in w if not isinstance(p, Sub | Var))


def _flags_and_targets(rest: list[Arg]) -> tuple[list[str], list[Arg]]:
    flags, targets = [], []
    over = False
    for arg in rest:
        if arg.text == "--" and not over:
            over = True
        elif arg.text.startswith("-") and len(arg.text) > 1 and not over:
            flags.append(arg.text)
        else:
            targets.append(arg)
    return flags, targets


def _is_vital(path: str | None) -> bool:
    """The root, a folder of the system, the home folder of anybody, or all that is in one of them."""
    if path is None or not path.startswith("/"):
        return False
    parts = path.strip("/").split("/")
    if parts[-1] in ("*", ".*", "**", "{*,.*}", "?*", ".[!.]*", "[!.]*"):
        path = "/" + "/".join(parts[:-1])
    path = path.rstrip("/") or "/"
    if path == "/" or path in _TOP or re.fullmatch(r"/(home|Users)/[^/]+", path):
        return True
    first = path.split("/")[1]
    return any(c in "*?[" for c in first) and any(fnmatch.fnmatchcase(top, path) for top in _TOP)


def _shown(path: str) -> str:
    return path.replace(HOME, "~", 1)


def _changes_disk(rest: list[Arg]) -> bool:
    """Not merely asked to list."""
    return bool(rest) and not any(a.text in ("-l", "--list", "-h", "--help", "--version", "-V", "list", "status", "print") for a in rest)


def _file_written(name: str, arg: Arg, scope: Scope) -> str | None:
    """Arguments of a program that may write are taken as files that it wrote, unless they are flags."""
    if name in ("tee", "cp", "mv", "ln", "install", "curl", "wget", "sed", "dd", "base64", "unzip", "tar", "patch", "rsync", "truncate"):
        text = arg.text.removeprefix("of=")
        text = text.partition("=")[2] if text.startswith("--output=") else text
        if text and not text.startswith("-") and "://" not in text:
            return scope.path(text)
        if arg.text.startswith("-o") and len(arg.text) > 2:
            return scope.path(arg.text[2:])
    return None


def _git_destroys(words: list[str]) -> bool:
    verb = next((w for w in words if not w.startswith("-")), "")
    if verb == "clean":
        return not any(w in ("-n", "--dry-run") for w in words)
    return (verb == "push" and any(w in ("-f", "--force", "--mirror", "--delete") for w in words)) or (
        verb == "reset" and "--hard" in words
    )


_ENV_FLAGS = ("-u", "--unset", "-C", "--chdir")
_WRAPPERS: dict[str, tuple[str, ...]] = {
    "env": _ENV_FLAGS, "command": (), "builtin": (), "exec": ("-a",), "nohup": (), "time": ("-f", "-o", "--format", "--output"),
    "nice": ("-n", "--adjustment"), "ionice": ("-c", "-n", "--class", "--classdata"), "timeout": ("-k", "-s", "--signal", "--kill-after"),
    "gtimeout": ("-k", "-s", "--signal", "--kill-after"), "setsid": (), "stdbuf": ("-i", "-o", "-e", "--input", "--output", "--error"),
    "unbuffer": (), "chrt": ("-T", "-P", "-D"), "taskset": (), "setarch": (), "linux64": (), "linux32": (), "busybox": (), "toybox": (),
    "strace": ("-o", "-e", "-p", "-s", "-u", "-E"), "ltrace": ("-o", "-e", "-p", "-s", "-u"), "watch": ("-n", "--interval", "-d"),
    "flock": ("-w", "--timeout", "-E"), "caffeinate": ("-t", "-w"), "prlimit": (), "choom": ("-n",), "setpriv": (), "proot": ("-r", "-b", "-w"),
    "fakeroot": ("-i", "-s", "-l"), "faketime": (), "xvfb-run": ("-n", "-s", "-e", "-f"), "dbus-run-session": (), "systemd-run": ("-p", "-u", "--unit"),
    "systemd-inhibit": (), "catchsegv": (), "arch": ("-arch",), "trickle": ("-d", "-u"), "cpulimit": ("-l",),
    "firejail": (), "bwrap": (), "rlwrap": (), "winpty": (), "numactl": ("-N", "-m", "-C"), "torsocks": (), "proxychains": (), "proxychains4": (),
    "perf": ("-e", "-o"), "valgrind": (), "hyperfine": ("-w", "-r", "-n", "-m", "-M"), "uv": (), "poetry": (), "pipenv": (), "nix-shell": (),
}  # fmt: skip
_POSITIONALS = {"timeout": 1, "gtimeout": 1, "chrt": 1, "taskset": 1, "flock": 1, "faketime": 1, "setarch": 1, "perf": 1,
                "uv": 1, "poetry": 1, "pipenv": 1}  # fmt: skip
_SHADY = {
    "git": re.compile(r"^(-c|--config-env.*|--exec-path=.*|--upload-pack.*|--receive-pack.*|--extcmd.*|-x|--exec.*|filter-branch|bisect)$"),
    "tar": re.compile(r"^(--to-command|--checkpoint-action|--use-compress-program|-I|--rsh-command|--info-script|-F|--new-volume-script)"),
    "sed": re.compile(r"(^|[;}\n\d$/])\s*e(\s|$)|/[gpiI0-9]*e[gpiI0-9]*$|(^|[;}])\s*[wW]\s+/dev/(sd|nvme)"),
    "awk": re.compile(r"system\s*\(|\|\s*(getline|\"|&)|\"\s*\||print[^;}]*\|"),
    "rg": re.compile(r"^--(pre|hostname-bin)(=|$)"),
    "sort": re.compile(r"^--compress-program"),
    "man": re.compile(r"^(-P|--pager|-H|--html)"),
    "vim": re.compile(r"^[+-]|!"),
    "less": re.compile(r"^\+.*!"),
    "zip": re.compile(r"^(-TT|--unzip-command)"),
    "split": re.compile(r"^--filter"),
    "gdb": re.compile(r"^-(ex|x|-batch|-command|-eval)"),
    "make": re.compile(r"^(--eval|SHELL=)"),
    "ssh-keygen": re.compile(r"^-D"),
    "curl": re.compile(r"^(-K|--config)$"),
    "wget": re.compile(r"^--use-askpass"),
    "openssl": re.compile(r"^-engine$"),
}  # fmt: skip
_SHADY |= {"gawk": _SHADY["awk"], "mawk": _SHADY["awk"], "nawk": _SHADY["awk"], "gsed": _SHADY["sed"], "gtar": _SHADY["tar"],
           "bsdtar": _SHADY["tar"], "vi": _SHADY["vim"], "nvim": _SHADY["vim"], "ex": _SHADY["vim"], "view": _SHADY["vim"],
           "gmake": _SHADY["make"]}  # fmt: skip
_ALWAYS = {
    "ssh": "it runs a command on another machine", "mosh": "it runs a command on another machine",
    "chroot": "it runs a command in another root", "nsenter": "it runs a command in other namespaces",
    "unshare": "it runs a command in other namespaces", "docker": "containers can reach the whole machine",
    "podman": "containers can reach the whole machine", "nerdctl": "containers can reach the whole machine",
    "crontab": "it changes what runs later", "at": "it runs a command later", "batch": "it runs a command later",
    "launchctl": "it changes what runs later", "script": "it runs a command in a terminal of its own",
    "screen": "it runs a command in a terminal of its own", "tmux": "it runs a command in a terminal of its own",
    "nc": "it connects programs to the network", "ncat": "it connects programs to the network",
    "netcat": "it connects programs to the network", "socat": "it connects programs to the network",
    "gcloud": "it acts on another machine", "kubectl": "it acts on another machine",
    "fc": "it runs an earlier command", "enable": "it changes the shell's own commands",
    "hash": "it changes which program a name runs", "capsh": "it changes the rights of a process",
    "setcap": "it changes the rights of a program", "mount": "it changes what is mounted", "umount": "it changes what is mounted",
    "insmod": "it changes the kernel", "modprobe": "it changes the kernel", "rmmod": "it changes the kernel", "sysctl": "it changes the kernel",
    "iptables": "it changes the firewall", "nft": "it changes the firewall", "ufw": "it changes the firewall",
    "passwd": "it changes a user", "useradd": "it changes a user", "userdel": "it changes a user", "usermod": "it changes a user", "chsh": "it changes a user",
}  # fmt: skip

_Rule = Callable[[Judge, str, list[Arg], Scope, "_Stdin | None"], None]
_RULES: dict[str, _Rule] = {
    **dict.fromkeys(_WRAPPERS, Judge.wrapper), **dict.fromkeys(_SHADY, Judge.shady_flags), **dict.fromkeys(_ALWAYS, Judge.always_ask),
    "xargs": Judge.xargs, "gxargs": Judge.xargs, "parallel": Judge.xargs, "eval": Judge.eval, "source": Judge.source, ".": Judge.source,
    "trap": Judge.trap, "alias": Judge.alias, "find": Judge.find, "gfind": Judge.find, "fd": Judge.find, "fdfind": Judge.find,
    "rm": Judge.rm, "grm": Judge.rm, "chmod": Judge.on_tree, "chown": Judge.on_tree, "chgrp": Judge.on_tree, "mv": Judge.mv, "dd": Judge.dd,
    "tee": Judge.writer, "cp": Judge.writer, "install": Judge.writer, "shred": Judge.writer, "truncate": Judge.writer, "rsync": Judge.writer,
    "ln": Judge.writer, "sponge": Judge.writer, "systemctl": Judge.systemctl, "loginctl": Judge.systemctl, "init": Judge.init,
    "read": Judge.reads_names, "mapfile": Judge.reads_names, "readarray": Judge.reads_names, "printf": Judge.reads_names,
    "set": Judge.set, "shift": Judge.set, "cd": Judge.cd, "pushd": Judge.cd, "popd": Judge.cd,
}  # fmt: skip
