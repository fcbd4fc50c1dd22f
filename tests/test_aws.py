"""Signatures of Amazon's, against its published test vectors and its own library; regions and keys."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlsplit

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orkas.infra.errors import UsageError
from orkas.providers.clouds.aws import Signer, address, signer

NOW = datetime(2015, 8, 30, 12, 36, tzinfo=UTC)
SUITE = Signer("AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY", region="us-east-1")
TEMPLATE = "https://bedrock-runtime.{region}.amazonaws.com/model"


def signature(headers: dict[str, str]) -> str:
    return headers["authorization"].rpartition("Signature=")[2]


@pytest.mark.parametrize(
    ("method", "path", "wanted"),
    [
        ("GET", "/", "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31"),
        ("POST", "/", "5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b"),
        ("GET", "/?Param2=value2&Param1=value1", "b97d918cfa904a5beff61c982a1b6f458b799221646efd99d3219ec94cdf2500"),
    ],
    ids=["get-vanilla", "post-vanilla", "get-vanilla-query-order-key-case"],
)
def test_the_published_vectors(method: str, path: str, wanted: str) -> None:
    headers = SUITE.headers(method, f"https://example.amazonaws.com{path}", b"", service="service", now=NOW)
    assert signature(headers) == wanted
    assert "Credential=AKIDEXAMPLE/20150830/us-east-1/service/aws4_request" in headers["authorization"]


MODELS = st.text("abcz019.:-_", min_size=1, max_size=30).map(lambda m: f"us.{m}")


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from(["GET", "POST"]), MODELS, st.binary(max_size=40), st.sampled_from(["", "token/with+signs=="]),
    st.sampled_from(["", "?a=1&b=%20x", "?b&a=", "?x=%2F"]), st.sampled_from(["h:8080", "bedrock-runtime.eu-west-1.amazonaws.com"]),
)  # fmt: skip
def test_the_same_as_amazons_own_library(
    method: str, model: str, body: bytes, token: str, query: str, host: str
) -> None:
    auth = pytest.importorskip("botocore.auth", reason="botocore is not installed")
    from botocore.awsrequest import AWSRequest
    from botocore.credentials import Credentials

    url = f"https://{host}/model/{model}/converse-stream{query}"
    mine = Signer("AKID", "secret/key", token, "eu-west-1").headers(
        method, url, body, {"content-type": "application/json", "accept": "a  b"}
    )
    stamp = mine["x-amz-date"]
    request = AWSRequest(method, url, {"content-type": "application/json", "accept": "a  b"}, body)
    request.context["timestamp"] = stamp
    request.headers["X-Amz-Date"] = stamp
    if token:
        request.headers["X-Amz-Security-Token"] = token
    theirs = auth.SigV4Auth(Credentials("AKID", "secret/key", token or None), "bedrock", "eu-west-1")
    text = theirs.string_to_sign(request, theirs.canonical_request(request))
    assert signature(mine) == theirs.signature(text, request)
    assert mine.get("x-amz-security-token", "") == token


def test_the_region_is_the_addresss_own_if_it_names_one() -> None:
    for url, wanted in (
        ("https://bedrock-runtime.eu-west-3.amazonaws.com/model/m", "eu-west-3"),
        ("https://bedrock.ap-south-1.amazonaws.com/x", "ap-south-1"),
        ("https://vpce-1.bedrock-runtime.us-west-2.vpce.amazonaws.com/x", "sa-east-1"),
        ("http://127.0.0.1:8080/model/m", "sa-east-1"),
    ):
        headers = Signer("A", "s", region="sa-east-1").headers("POST", url, b"")
        assert f"/{wanted}/bedrock/aws4_request" in headers["authorization"]


def test_who_signs() -> None:
    both = {"AWS_ACCESS_KEY_ID": "AKID", "AWS_SECRET_ACCESS_KEY": "secret"}
    assert signer({}) is None and signer({"AWS_ACCESS_KEY_ID": "AKID"}) is None
    assert signer({**both, "AWS_SESSION_TOKEN": "t", "AWS_REGION": "r"}) == Signer("AKID", "secret", "t", "r")
    assert "secret" not in repr(signer(both))


def test_addresses() -> None:
    assert address(TEMPLATE, {"AWS_REGION": "eu-central-1", "AWS_DEFAULT_REGION": "x"}) == TEMPLATE.format(
        region="eu-central-1"
    )
    assert urlsplit(address(TEMPLATE, {"AWS_DEFAULT_REGION": "us-gov-west-1"})).netloc.startswith("bedrock-runtime.us-gov")
    assert address(TEMPLATE, {"AWS_REGION": "cn-north-1"}).endswith(".amazonaws.com.cn/model")
    for environ in ({}, {"AWS_REGION": "evil.example/x"}, {"AWS_REGION": "Frankfurt"}):
        with pytest.raises(UsageError) as caught:
            address(TEMPLATE, environ)
        assert "AWS_REGION" in caught.value.hint


def test_a_signature_is_of_this_moment() -> None:
    headers: dict[str, Any] = Signer("A", "s").headers("POST", "https://h/x", b"")
    assert re.fullmatch(r"\d{8}T\d{6}Z", headers["x-amz-date"])
    sent = datetime.strptime(headers["x-amz-date"], "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)
    assert abs((datetime.now(UTC) - sent).total_seconds()) < 60
