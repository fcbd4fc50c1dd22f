"""Settings: where each comes from, what is refused, and how the file is changed."""

from __future__ import annotations

import os
import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cli_support import orkas
from orkas.infra import config
from orkas.infra.errors import StorageError, UsageError


def write(text: str | bytes) -> Path:
    path = config.file_path()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def test_the_first_place_that_has_a_value_wins_and_is_named() -> None:
    path = write('model = "a/file"\nmax_rounds = 7\n')
    found = config.load({"ORKAS_MODEL": "a/variable"}, {"model": "a/flag", "max_rounds": None})
    assert (found["model"], found.values["model"].origin) == ("a/flag", "flag")
    assert (found["max_rounds"], found.values["max_rounds"].origin) == (7, str(path))
    assert (found["approve"], found.values["approve"].origin) == ("ask", "default")
    found = config.load({"ORKAS_MODEL": "a/variable"})
    assert (found["model"], found.values["model"].origin) == ("a/variable", "environment ORKAS_MODEL")
    assert config.load({"ORKAS_MODEL": ""})["model"] == "a/file"


def test_defaults_are_those_of_the_harness() -> None:
    from orkas.harness.setup import MAX_ROUNDS

    assert config.KEYS["max_rounds"].default == MAX_ROUNDS


def test_the_working_folder_is_never_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("config.toml", "orkas.toml", ".orkas.toml"):
        (tmp_path / name).write_text('model = "evil/model"')
    assert config.load({})["model"] == ""


def test_an_address_of_the_file_gives_way_to_the_environment() -> None:
    write('[vendors.my-lab]\nbase_url = "http://lab:1/v1"\n[vendors.ollama]\nbase_url = "http://box:1"\n')
    found = config.load({"MY_LAB_BASE_URL": "http://other:2"})
    assert found.endpoints == {"MY_LAB_BASE_URL": "http://other:2", "OLLAMA_BASE_URL": "http://box:1"}
    assert found.values["vendors.my-lab.base_url"].origin == "environment MY_LAB_BASE_URL"


@pytest.mark.parametrize(
    ("key", "near"), [("modle", "model"), ("max-rounds", "max_rounds"), ("vendor.x.base_url", "vendors.")]
)
def test_an_unknown_key_is_a_warning_with_the_nearest_name(key: str, near: str) -> None:
    write(f'{key} = "x"\nthinking = "low"\n')
    found = config.load({})
    assert found["thinking"] == "low"
    (warning,) = found.warnings
    assert key in warning and near in warning


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("max_rounds = 'many'", "whole number"),
        ("max_rounds = 0", "whole number"),
        ("max_rounds = true", "whole number"),
        ("max_rounds = 1.5", "whole number"),
        ("approve = 'nome'", "ask, edits, all or none"),
        ("approve = ['all']", "ask, edits, all or none"),
        ("approve = {a = 1}", "ask, edits, all or none"),
        ("model = 5", "text"),
        ('model = "a\\u0007"', "one line"),
        ("thinking = 'much'", "off, low, medium or high"),
        ("[vendors.x]\nbase_url = 'ftp://x'", "http"),
        ("# x\nmodel = = 1", "line 2"),
        ("a = 1\na = 2", ""),
        (b"model = '\xff'", "UTF-8"),
    ],
    ids=str,
)
def test_what_cannot_be_used_is_one_sentence_and_never_a_guess(text: str | bytes, says: str) -> None:
    write(text)
    with pytest.raises(UsageError) as refused:
        config.load({})
    assert says in str(refused.value) and "\n" not in str(refused.value) and refused.value.hint
    assert config.load({}, tolerant=True).broken


def test_a_folder_in_place_of_the_file() -> None:
    config.file_path().mkdir(parents=True)
    with pytest.raises(UsageError, match="cannot be read"):
        config.load({})
    with pytest.raises(UsageError, match="cannot be read"):
        config.set_value("model", "a/b")


def test_a_bad_variable_is_told_by_its_name() -> None:
    with pytest.raises(UsageError, match="ORKAS_MODEL"):
        config.load({"ORKAS_MODEL": "a\nb"})


def test_setting_a_value_keeps_comments_order_and_line_ends() -> None:
    path = write(
        "# mine\r\nmax_rounds = 5  # few\r\n\r\nmodel = 'old # not a comment' # why\r\n"
        '# of the lab\r\n[vendors.lab]\r\n# where\r\nbase_url = "http://a"\r\n'
    )
    config.set_value("model", "new/one")
    config.set_value("max_rounds", "9")
    config.set_value("thinking", "high")
    config.set_value("vendors.lab.base_url", "https://b/v1")
    config.set_value("vendors.other.base_url", "http://c")
    assert path.read_bytes().decode() == (
        '# mine\r\nmax_rounds = 9  # few\r\n\r\nmodel = "new/one" # why\r\nthinking = "high"\r\n'
        '# of the lab\r\n[vendors.lab]\r\n# where\r\nbase_url = "https://b/v1"\r\n'
        '\r\n[vendors.other]\r\nbase_url = "http://c"\r\n'
    )


def test_unsetting_a_value_leaves_all_else_as_it_was() -> None:
    text = '# mine\nmodel = "a/b"  # the best\napprove = "ask"\n\n[vendors.x]\nbase_url = "http://h"\n# end\n'
    write(text)
    assert config.unset_value("model") and not config.unset_value("model")
    assert config.file_path().read_text() == text.replace('model = "a/b"  # the best\n', "")
    assert config.unset_value("vendors.x.base_url")
    left = config.load({})
    assert left["approve"] == "ask" and left.endpoints == {} and not left.warnings
    assert config.file_path().read_text().endswith("[vendors.x]\n# end\n")


@pytest.mark.parametrize("end", ["\n", "", "\n# why\n", "\n\n[web]\n"])
def test_what_was_taken_out_can_be_set_again(end: str) -> None:
    write(f"[image]{end}")
    config.set_value("image.model", "openai/gpt-image-1")
    assert config.load({})["image.model"] == "openai/gpt-image-1"
    assert config.unset_value("image.model")
    config.set_value("image.model", "google/x")
    assert config.load({})["image.model"] == "google/x" and config.file_path().read_text().count("[image]") == 1


def test_a_form_that_cannot_be_unset_safely_is_left_alone() -> None:
    text = "vendors = {x = {base_url = 'http://h'}}\n"
    write(text)
    with pytest.raises(UsageError, match="remove it with an editor"):
        config.unset_value("vendors.x.base_url")
    assert config.file_path().read_text() == text


def test_a_fresh_file_is_for_the_user_alone() -> None:
    config.set_value("model", "a/b")
    path = config.file_path()
    assert path.read_text() == 'model = "a/b"\n' and path.stat().st_mode & 0o777 == 0o600
    assert [p.name for p in path.parent.iterdir()] == ["config.toml"]


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("openai_api_key", "x"), ("api_key", "x"), ("vendors.openai.api_key", "x"), ("token", "x"),
        ("db.password", "x"),
        ("model", "sk-ant-api03-abcdefghijklmnop"), ("vendors.x.base_url", "https://u:secretpw@host/v1"),
        ("vendors.x.base_url", "https://host/v1?key=abcdef"), ("sk-abcdefghijklmnop", "x"),
    ],
)  # fmt: skip
def test_secrets_are_refused_with_the_way_out_and_not_repeated(key: str, value: str) -> None:
    with pytest.raises(UsageError, match="secret") as refused:
        config.set_value(key, value)
    said = f"{refused.value} {refused.value.hint}"
    assert "environment" in said and "sk-" not in said and "secretpw" not in said and "abcdef" not in said
    assert not config.file_path().exists()


def test_a_secret_in_the_file_is_told_without_its_value() -> None:
    write('[vendors.openai]\napi_key = "sk-abcdefghijklmnop"\n')
    (warning,) = config.load({}).warnings
    assert "environment" in warning and "sk-abc" not in warning


@pytest.mark.parametrize(
    "text",
    [
        'vendors.lab.base_url = "http://a"\n',
        'vendors = {lab = {base_url = "http://a"}}\n',
        '[vendors]\nlab.base_url = "http://a"\n',
    ],
)
def test_a_form_that_cannot_be_changed_safely_is_left_alone(text: str) -> None:
    path = write(text)
    with pytest.raises(UsageError, match="cannot be changed here"):
        config.set_value("vendors.lab.base_url", "http://b")
    assert path.read_text() == text


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_failed_write_changes_nothing() -> None:
    path = write('model = "a/b"\n')
    path.parent.chmod(0o500)
    try:
        with pytest.raises(StorageError):
            config.set_value("model", "c/d")
    finally:
        path.parent.chmod(0o700)
    assert [p.name for p in path.parent.iterdir()] == ["config.toml"] and path.read_text() == 'model = "a/b"\n'


def test_a_home_that_is_a_file_is_a_storage_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "home").write_text("")
    monkeypatch.setenv("ORKAS_HOME", str(tmp_path / "home"))
    with pytest.raises(UsageError, match="no folder"):
        config.load({})


line = st.one_of(
    st.sampled_from(
        [
            "",
            "# a comment",
            "  # another",
            "unknown = 1",
            "names = [\n  'a', # b\n  'c',\n]",
            "long = '''\nmodel = 1\n'''",
        ]
    )
)
keys: st.SearchStrategy[tuple[str, str]] = st.one_of(
    st.tuples(st.just("model"), st.text(st.characters(codec="utf-8", exclude_categories=("C", "Z")), max_size=20)),
    st.tuples(st.just("approve"), st.sampled_from(["ask", "edits", "all", "none"])),
    st.tuples(st.just("max_rounds"), st.integers(1, 1_000_000).map(str)),
    st.tuples(st.sampled_from(["vendors.a.base_url", "vendors.b-c.base_url"]), st.just("http://host:1/v1")),
)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    before=st.lists(line, max_size=5, unique=True),
    after=st.lists(line.filter(lambda x: "=" not in x), max_size=3),
    edits=st.lists(keys, max_size=6),
)
def test_an_edit_changes_one_value_and_no_other_line(
    before: list[str], after: list[str], edits: list[tuple[str, str]]
) -> None:
    text = "\n".join([*before, "[other]", "x = 1", *after])
    path = write(text)
    lines = text.split("\n")
    expected: dict[str, Any] = tomllib.loads(text)
    for key, value in edits:
        try:
            kept = config.set_value(key, value)
        except UsageError:
            assert tomllib.loads(path.read_text()) == expected
            continue
        head, *rest = key.split(".")
        if rest:
            expected.setdefault(head, {})[rest[0]] = {"base_url": kept}
        else:
            expected[head] = kept
        assert tomllib.loads(path.read_text()) == expected
    remaining = iter(path.read_text().split("\n"))
    assert all(any(line == there for there in remaining) for line in lines if line)


def test_what_is_no_regular_file_is_refused_and_not_waited_for() -> None:
    os.mkfifo(config.file_path())
    ran = orkas("run", "x", "--model", "demo/offline")
    assert ran.status == 2 and "it is no regular file" in ran.err and "Traceback" not in ran.err
