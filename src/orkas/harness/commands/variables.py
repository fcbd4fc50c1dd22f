"""Variables of the environment that change what later programs run, by families: a program, a shell or a run-time
reads them, and what they hold is a command, a flag, a file of settings or a folder with code."""

from __future__ import annotations

import re

from orkas.infra.patterns import lazy

__all__ = ["finds_programs", "risky"]

_ALWAYS = lazy(
    # the shell, the loader, the C library
    r"(LD_|DYLD_|BASH_ENV$|BASH_FUNC_|ENV$|PATH$|SHELLOPTS$|BASHOPTS$|PROMPT_COMMAND$|PS[04]$|IFS$|HOME$|ZDOTDIR$"
    r"|INPUTRC$|SHELL$|GCONV_PATH$|GLIBC_TUNABLES$|LOCPATH$|XDG_(CONFIG_HOME|CONFIG_DIRS|DATA_DIRS)$|ORKAS_"
    # languages
    r"|PERL5|RUBYOPT$|RUBYLIB$|GEM_(HOME|PATH)$|BUNDLE_(GEMFILE|PATH)$|LUA_(INIT|PATH|CPATH)|JULIA_LOAD_PATH$"
    r"|PYTHON(STARTUP|PATH|HOME|INSPECT|WARNINGS|BREAKPOINT|USERBASE|PLATLIBDIR|EXECUTABLE|CASEOK)$"
    r"|NODE_(OPTIONS|PATH)$|CLASSPATH$|JAVA_HOME$|JAVA_TOOL_OPTIONS$|_JAVA_OPTIONS$|JDK_JAVA_OPTIONS$|DOTNET_ROOT"
    r"|DOTNET_STARTUP_HOOKS$|ERL_(LIBS|FLAGS|AFLAGS|ZFLAGS)$|R_(PROFILE|ENVIRON|LIBS)|GUILE_LOAD_|PHPRC$|PHP_INI_"
    r"|PSModulePath$|TCLLIBPATH$|EMACSLOADPATH$|COR(CLR)?_(ENABLE_)?PROF|NODE_REPL_EXTERNAL_MODULE$|TS_NODE_COMPILER$"
    # compilers and builds
    r"|(HOST|BUILD|TARGET)?(CC|CXX|CPP)(_\w+)?$|(LD|AR|AS|FC|NVCC|RUSTC|RUSTDOC|LINKER)$"
    r"|(CGO_|HOST|TARGET_)?(C|CXX|CPP|LD|F|FC|GO|RUST|RUSTDOC|GNUMAKE|MAKE)FLAGS$|CARGO_ENCODED_RUSTFLAGS$"
    r"|MAKEFILES$|GCC_EXEC_PREFIX$|COMPILER_PATH$|CARGO_(HOME|ALIAS_|BUILD_RUST|TARGET_\w+_(LINKER|RUNNER|RUSTFLAGS))"
    r"|(CURL|M2|MAVEN|GRADLE|GRADLE_USER|GNUPG)_?HOME$|CMAKE_TOOLCHAIN_FILE$|GOROOT$|GOTOOLCHAIN$|MAVEN_ARGS$|MAKESHELL$|CONFIG_SITE$"
    r"|(MAKE|NINJA|PKG_CONFIG|LIBTOOL|ACLOCAL|AUTOCONF|PYTHON|NODE|PERL|RUBY)$|CCACHE_(PREFIX|COMPILER)|DISTCC_CMDLIST$"
    r"|(?i:npm_config_)|YARN_(YARN_PATH|RC)|GOENV$"
    # git
    r"|GIT_(SSH|EDITOR|PAGER|EXTERNAL_DIFF|ASKPASS|CONFIG|PROXY_COMMAND|EXEC_PATH|SEQUENCE_EDITOR|TEMPLATE_DIR|DIR$"
    r"|COMMON_DIR|WORK_TREE|ALLOW_PROTOCOL|TRACE|REDIRECT_|MAN_VIEWER|OBJECT_DIRECTORY|ALTERNATE_OBJECT)"
    # programs that start others
    r"|PAGER$|MANPAGER$|EDITOR$|VISUAL$|BROWSER$|LESS(OPEN|CLOSE|KEY\w*|_ADVANCED\w*)?$|SSH_ASKPASS|SUDO_ASKPASS"
    r"|TAR_OPTIONS$|ZIPOPT$|GREP_OPTIONS$|MANROFFOPT$|MANOPT$|GROFF_|(G?VIM|EX)INIT$|MYVIMRC$|FZF_DEFAULT_"
    r"|(RSYNC|CVS|SVN|HG)_?(RSH|SSH)$|HGRCPATH$|OPENSSL_(CONF|ENGINES|MODULES)$|KUBECONFIG$|KUBE_EDITOR$"
    r"|HG$|HG(EDITOR|MERGE)$|CVSEDITOR$|P4CONFIG$|MORE$|MANPATH$|FPATH$|UNZIP$|RSYNC_CONNECT_PROG$|VIM(RUNTIME)?$"
    r"|(GST|QT|QML|GTK)\w*_PATH$|GTK_MODULES$|GIO_EXTRA_MODULES$|GDK_PIXBUF_MODULE_FILE$|MAGICK_CONFIGURE_PATH$"
    r"|KDEHOME$|VAGRANT_VAGRANTFILE$|KUBECTL_EXTERNAL_DIFF$|TERMINFO$|KSH_ENV$"
    r"|AWS_SHARED_CREDENTIALS_FILE$|ANSIBLE_(CONFIG|LIBRARY|\w+_PLUGINS|\w+_EXECUTABLE)$|PYTEST_(ADDOPTS|PLUGINS)$)"
)
"""Whoever sets them, exported or not: most of them are in the environment already."""
_EXPORTED = lazy(
    r"(?!PKG_)\w*_(WRAPPER|LAUNCHER|LINKER|PRELOAD|HOOKS?|PLUGINS?|COMMAND|RSH|ASKPASS|EDITOR|PAGER|BROWSER|SHELL"
    r"|OPTS|OPTIONS|ADDOPTS|CONFIG_(FILE|PATH|DIR|HOME)|CONF)$|\w*(?<!S)(?<!A)RC$"
)
"""Names that tell what they are for; without being exported they are variables of the command line itself."""

_SWITCH = lazy(r"0|1|2|true|false|yes|no|on|off", re.IGNORECASE)
_TAME = lazy(r"(|:|true|false|cat|less|more|head|/bin/(cat|true|less)|/usr/bin/(cat|true|less))")
_NODE_OPTIONS = lazy(
    r"\s*(--(max[-_]old[-_]space[-_]size|max-semi-space-size|stack-trace-limit|unhandled-rejections|dns-result-order)=[\w-]+"
    r"|--(experimental-[a-z-]+|no-[a-z-]+|trace-[a-z-]+|openssl-legacy-provider|enable-source-maps|expose-gc)\s*)+"
)
_JAVA_WORD = lazy(
    r"-X(mx|ms|ss|mn)\d+[kKmMgG]?|-XX:[+-](Use\w+|\w+Metaspace\w*|HeapDumpOnOutOfMemoryError|TieredCompilation)"
    r"|-XX:Max\w+=[\w.]+|-D(file\.encoding|user\.\w+|org\.gradle\.\w+|java\.net\.preferIPv4Stack)=[\w./-]*|-ea|-server"
)
_PYTEST_WORD = lazy(
    r"-[qvxsl]+|-n ?(\d+|auto)|-m \w+|-k \w+|--(tb|color|maxfail|durations|timeout|cov-report)=[\w-]+"
    r"|--(lf|ff|strict-\w+)|--cov=[\w./]+"
)
_COMPILER = lazy(
    r"(/usr/(local/)?bin/|/bin/)?([a-z0-9_]+-)*(gcc|g\+\+|cc|c\+\+|clang|clang\+\+|cpp|tcc|icc|icx|ld|lld|ld\.lld|mold|gold"
    r"|ar|as|gfortran|flang|nvcc|rustc|rustdoc|ifort|zig|musl-gcc)(-\d[\d.]*)?"
)
_CACHES = ("", "ccache", "sccache", "distcc")
_COMPILE_WORD = lazy(
    r"-(O\w*|g\w*|W(?!rapper)[\w=,+.-]*|D\S+|U\w+|[IL]\S*|l[\w.+-]+|std=\S+|f(?!plugin|use-ld=\S*/|pass-plugin)[\w=+,-]+|m[\w=.-]+"
    r"|pthread|pipe|static|shared|s|w|v|x|race|trimpath|a|C|pie|no-pie|mod=\w+|tags=[\w,]+|p=\d+|count=\d+)"
    r"|(target-cpu|target-feature|opt-level|debuginfo|codegen-units|lto|panic|prefer-dynamic|instrument-coverage"
    r"|link-dead-code|strip)(=[\w+,-]+)?|--cfg|[\w=\"-]+|warnings"
)
_NPM_TAME = lazy(
    r"(loglevel|audit|fund|progress|yes|update_notifier|color|unicode|legacy_peer_deps|production|optional|save|save_exact"
    r"|engine_strict|strict_ssl|fetch_\w+|maxsockets|ignore_scripts|package_lock|offline|prefer_offline|omit|include)",
    re.IGNORECASE,
)


def finds_programs(name: str) -> bool:
    """Whether it says where programs and libraries are looked for: files, as any script is; no command line."""
    return bool(re.fullmatch(r"PATH|LD_LIBRARY_PATH|DYLD_\w*PATH|PYTHON(PATH|HOME|WARNINGS)|RUBYLIB|PERL5LIB", name))


def risky(name: str, value: str, *, exported: bool) -> bool:
    """Whether this variable with this value can change what a later program runs. ``value``: as far as it is known."""
    if _ALWAYS.match(name):
        return not _harmless(name, value)
    return exported and bool(_EXPORTED.fullmatch(name)) and not (_SWITCH.fullmatch(value) or _harmless(name, value))


def _harmless(name: str, value: str) -> bool:
    """One of the values which everybody gives it: code of the project, a compiler of the system, no pager."""
    if name == "IFS":
        return not value.strip(" \t\n") and bool(value)
    if name in ("PYTHONPATH", "NODE_PATH", "CLASSPATH", "BUNDLE_GEMFILE"):
        parts = value.split(":")
        return bool(value) and not any(p.startswith(("/", "~", "..")) for p in parts)
    if name == "PYTHONWARNINGS":
        return bool(re.fullmatch(r"[\w:, ]+", value))
    if name == "NODE_OPTIONS":
        return bool(_NODE_OPTIONS.fullmatch(value))
    if name == "RUBYOPT":
        return bool(re.fullmatch(r"\s*(-[wW]\d?(:[\w-]+)?\s*)+", value))
    if name in ("MAKEFLAGS", "GNUMAKEFLAGS"):
        return bool(re.fullmatch(r"\s*(-?[ksj]+\d*\s*)+", value))
    if name == "JAVA_HOME":
        return not value or (value.startswith(("/usr/", "/opt/", "/Library/")) and ".." not in value)
    if re.fullmatch(r"MAKE|NINJA|PKG_CONFIG|LIBTOOL|ACLOCAL|AUTOCONF|PYTHON|NODE|PERL|RUBY", name):
        return bool(re.fullmatch(r"(/usr(/local)?/bin/)?[\w.+-]+", value))
    if name == "GOTOOLCHAIN":
        return bool(re.fullmatch(r"local|auto|(go)?[\d.]+(\+auto)?", value))
    if name in ("LESS", "MORE"):
        return bool(re.fullmatch(r"-?[A-Za-z]*", value))
    if name == "SHELL":
        return bool(re.fullmatch(r"(/usr)?/bin/(ba|da|z|fi|k)?sh", value))
    if name.startswith("GIT_TRACE"):
        return bool(_SWITCH.fullmatch(value))
    if name.casefold().startswith("npm_config_"):
        return bool(_NPM_TAME.fullmatch(name[11:]))
    return _harmless_family(name, value)


def _harmless_family(name: str, value: str) -> bool:
    if name.endswith("FLAGS"):
        return all(_COMPILE_WORD.fullmatch(word) for word in value.split())
    if name == "PYTEST_ADDOPTS":
        return bool(re.fullmatch(rf"\s*(({_PYTEST_WORD.pattern})(\s+|$))*", value))
    if name.endswith(("OPTS", "OPTIONS")) and name != "TAR_OPTIONS":
        return bool(value) and all(_JAVA_WORD.fullmatch(word) for word in value.split())
    if name.endswith(("PAGER", "EDITOR", "VISUAL", "BROWSER")):
        return bool(_TAME.fullmatch(value))
    if name.endswith(("WRAPPER", "LAUNCHER")):
        return value in _CACHES
    if re.fullmatch(r"(HOST|BUILD|TARGET)?(CC|CXX|CPP)(_\w+)?|LD|AR|AS|FC|NVCC|RUSTC|RUSTDOC|LINKER|\w+_LINKER", name):
        words = value.split()
        words = words[1:] if words[:1] and words[0] in _CACHES else words
        return bool(words) and bool(_COMPILER.fullmatch(words[0])) and all(map(_COMPILE_WORD.fullmatch, words[1:]))
    return False
