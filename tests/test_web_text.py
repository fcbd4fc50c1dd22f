"""Pages as trees, as Markdown, and which part of them is the text."""

from __future__ import annotations

import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orkas.tools.web.article import read_page
from orkas.tools.web.charset import decode
from orkas.tools.web.html import parse

URL = "https://site.example/dir/page.html"


def text(html: str) -> str:
    return read_page(html, URL).text


@pytest.mark.parametrize("html, markdown", [
    ("<h1>A</h1><h3>B  c\n d</h3><p>one<p>two", "# A\n\n### B c d\n\none\n\ntwo"),
    ("<p>a <b>bold</b>, <em>slanted </em>word, <code>x = 1</code>, <del>gone</del>, m<sup>2</sup>", "a **bold**, *slanted* word, `x = 1`, ~~gone~~, m^2"),
    ("<p>line<br>break &amp; &lt;tag&gt; &eacute; &#8364;", "line\nbreak & <tag> é €"),
    ("<ul><li>one<li>two<ul><li>inner</ul><li><p>three</p><p>more</p></ul>", "- one\n- two\n  - inner\n- three\n  more"),
    ("<ol start=3><li>c</li><li>d</li></ol>", "3. c\n4. d"),
    ("<pre class='language-python'><code>def f():\n    return 1\n</code></pre>", "```python\ndef f():\n    return 1\n```"),
    ("<div class=highlight-source-js><pre>a\n  b</pre></div>", "```\na\n  b\n```"),
    ("<pre>```\nx\n```</pre>", "````\n```\nx\n```\n````"),
    ("<pre><code class='hljs language-rust'><span class=k>fn</span> main() {<br>}</code></pre>", "```rust\nfn main() {\n}\n```"),
    ("<table><tr><th>n</th><th>v</th></tr><tr><td>a|b</td><td>1<br>2</td></tr></table>", "| n | v |\n| --- | --- |\n| a\\|b | 1<br>2 |"),
    ("<table><caption>T</caption><tbody><tr><td colspan=2>x<td>y<tr><td>1<td>2<td>3</table>", "**T**\n\n| x |  | y |\n| --- | --- | --- |\n| 1 | 2 | 3 |"),
    ("<table><tr><td><p>only</p></td></tr><tr><td>layout</td></tr></table>", "only\n\nlayout"),
    ("<table><tr><td><h2>Left</h2></td><td><p>Right</p></td></tr></table>", "## Left\n\nRight"),
    ("<blockquote><p>said</p><p>more</p></blockquote>", "> said\n>\n> more"),
    ("<dl><dt>Term<dd>what it is<dt>Other<dd>that</dl>", "**Term**\n: what it is\n**Other**\n: that"),
    ("<dl><div><dt>Term<dd>what it is</div><div>loose words</div><div><p>block</div></dl>", "**Term**\n: what it is\nloose words\nblock"),
    ("<p><a href='../x?a=1&amp;b=2'>rel</a> <a href='#top'>here</a> <a href='javascript:x()'>js</a> <a href='mailto:a@b.c'>mail</a> <a href=data:text/html,x>d</a>",
     "[rel](https://site.example/x?a=1&b=2) here js [mail](mailto:a@b.c) d"),
    ("<p><a href=//cdn.example/y><img src=/i.png alt='A picture'></a><img src=/t.gif alt=''>", "[(image: A picture, https://site.example/i.png)](https://cdn.example/y)"),
    ("<base href='https://other.example/'><p><a href=z>z</a>", "[z](https://other.example/z)"),
    ("<p>ends with <a href=/a>link </a>then", "ends with [link](https://site.example/a) then"),
    ("<ruby>漢字<rp>(</rp><rt>かんじ</rt><rp>)</rp></ruby>です", "漢字(かんじ)です"),
    ("<details><summary>More</summary><p>inside</p></details><figure><img alt=Fig src=/f.png><figcaption>Caption</figcaption></figure>",
     "**More**\n\ninside\n\n(image: Fig, https://site.example/f.png)\n\nCaption"),
    ("<span><div>block</div> in a span</span>", "block\n\nin a span"),
    ("<a href=/card><h2>Card</h2><p>with text</p></a>", "## Card\n\nwith text"),
    ("<p>unclosed <b>bold<p>next</b> one", "unclosed **bold**\n\nnext one"),
    ("text <!-- a > b --> on <!doctype x> and <![CDATA[ c ]]> 1 < 2 </ > <3", "text on and 1 < 2 <3"),
    ("<title>t</title><textarea>typed</textarea><select><option>o</select><button>b</button><p>seen", "seen"),
    ("<p title=\"a > b\" data-x='<p>'>quoted", "quoted"), ("<P CLASS=X>upper</P>", "upper"),
])  # fmt: skip
def test_html_as_markdown(html: str, markdown: str):
    assert text(html) == markdown


@pytest.mark.parametrize("way", [
    "style='display:/**/none'", "style='opacity:0.0'", "style='OPACITY: .01'", "style='font-size:0.0px'", "style='font-size:1px'", "style='font:0/0 a'",
    "style='visibility:collapse'", "style='color:#fff;background:white'", "style='color:transparent'", "style='color:rgba(1,2,3,0.0)'",
    "style='position:absolute;left:-9999px'", "style='text-indent:-9999px'", "style='height:0;overflow:hidden'", "style='transform:scale(0)'",
    "style='position:absolute;clip:rect(0, 0, 0, 0)'", "style='clip-path:inset(100%)'", "style='display:block;display:none!important'",
    "style='width:0%;overflow:hidden'", "style='max-height:0;overflow-y:hidden'", "style='transform:translatey(-9999px)'", "style='position:relative;left:-999em'",
    "class=q", "class='a q'", "id=unseen", "class='pane'", "hidden", "aria-hidden=true", "class=sr-only",
])  # fmt: skip
@pytest.mark.parametrize("place", ["<p>Hi.</p><ul><li {0}>TRAP</li></ul>", "<p>Hi.</p><table><tr {0}><td>TRAP</td><td>TRAP</td></tr><tr><td>a<td>b</table>",
                                   "<p>Hi.</p><dl><dt {0}>TRAP</dl><pre><span {0}>TRAP</span></pre>", "<p>Hi. <i {0}>TRAP</i></p>"])  # fmt: skip
def test_what_is_hidden_stays_hidden_wherever_it_stands_and_however_little_else_there_is(way: str, place: str):
    sheet = "<style>/* x */ @media print{.shown{display:none}} .q , b.z{display:none} #unseen{position:fixed;top:-5000px} .pane{visibility:hidden}</style>"
    got = text(sheet + place.format(way))
    assert "TRAP" not in got and "Hi." in got


@pytest.mark.parametrize("way", [
    "style='opacity:0.9'", "style='font-size:12px'", "style='color:#fff;background:url(x.png) #fff'", "style='left:-9999px'", "class=shown", "class='pane active'",
    "class='tab'", "style='height:0;padding-bottom:50%;overflow:hidden'", "style='clip-path:inset(10%)'", "class=fade", "style='display:none;display:block'",
    "style='width:1%;overflow:hidden'", "style='max-width:0;overflow:hidden'", "style='transform:translatex(-1200px)'", "style='position:relative;left:-1200px'",
])  # fmt: skip
def test_what_can_be_seen_is_not_taken_for_hidden(way: str):
    sheet = (
        "<style>@media print{.shown{display:none}} .pane{display:none} .pane.active{display:block} .tab{display:none} .open > .tab{display:block}"
        " .fade{opacity:0} p:hover{display:none}</style>"
    )
    assert "SEEN" in text(f"{sheet}<p {way}>SEEN</p>")


@pytest.mark.parametrize("reference, read", [
    ("&#" + "9" * 5_000 + ";", "\ufffd"), ("&#x" + "f" * 5_000, "\ufffd"), ("&#" + "0" * 5_000 + "65;", "A"), ("&#x00000041;", "A"), ("&#0;", "\ufffd"),
    ("&#1114112;", "\ufffd"), ("&#;", "&#;"),
])  # fmt: skip
def test_no_character_reference_is_too_long(reference: str, read: str):
    assert text(f"<p title='{reference}'>a {reference} b</p>") == f"a {read} b"


@pytest.mark.parametrize("link", ["http://[bad", "http://[::1", "//[", "http://a]b/", "http://x:y:z/", "\ud800"])
def test_a_bad_link_costs_no_page(link: str):
    assert text(f"<base href='{link}'><p>a <a href='{link}'>word</a> <img src='{link}' alt=pic>").startswith("a ")


def test_words_are_marked_once_however_deep_the_marks_are_nested():
    assert text("<p>" + "<b><strong>" * 60 + "x  y") == "**x y**" and text("<p><i>a<em>b</em></i>") == "*ab*"


def test_a_reader_is_told_to_stop():
    class Enough(Exception):
        pass

    for allowed in range(12):
        calls = 0

        def check(most: int = allowed) -> None:
            nonlocal calls
            calls += 1
            if calls > most:
                raise Enough

        with pytest.raises(Enough):
            read_page("<header>" * 140 + "<p>x <b>y</b>" * 8_000, URL, check)


PARAGRAPH = "<p>The town lies by the river and has a market on most days of the week, with many people.</p>"


@pytest.mark.parametrize("html", [
    "<header>HEADER</header><nav><ul><li><a href=/>NAV</a></ul></nav><main>{0}</main><aside>ASIDE</aside><footer>FOOTER</footer>",
    "<div class=top><a href=/1>NAV</a> <a href=/2>NAV</a></div><div><div id=content>{0}</div><div><a href=/r>NAV</a></div></div>",
    "<body><article>{0}</article><div class=related><a href=/x>NAV other story</a></div></body>",
    "<main><nav>NAV</nav><article><header><h1>Head</h1></header>{0}</article><section><a href=/c>NAV</a></section></main>",
    "<div id=onetrust-banner><p>We value your privacy NAV</p></div><div>{0}</div>",
    "<div role=navigation>NAV</div><div role=main>{0}</div><div role=contentinfo>NAV</div>",
    "<div role=dialog>NAV</div>{0}<div style='display:none'>NAV</div>",
], ids=range(7))  # fmt: skip
def test_what_surrounds_the_text_is_left_out(html: str):
    got = text(html.format(PARAGRAPH * 8))
    assert got.count("The town lies") == 8
    assert not any(word in got for word in ("NAV", "HEADER", "ASIDE", "FOOTER"))


def test_a_page_of_links_is_kept():
    got = text("<body><table>" + "".join(f"<tr><td>{n}.</td><td><a href=/item/{n}>Story number {n}</a></td></tr>" for n in range(30)) + "</table></body>")
    assert got.count("Story number") == 30


def test_several_articles_are_all_kept():
    got = text("<main>" + "".join(f"<article><h2>Post {n}</h2>{PARAGRAPH}</article>" for n in range(5)) + "</main>")
    assert all(f"## Post {n}" in got for n in range(5))


def test_the_title_and_where_a_page_sends_its_reader():
    got = read_page("<head><title> A\n B </title><meta http-equiv=Refresh content='5; url=/New'></head><svg><title>no</title></svg><p>x", URL)
    assert (got.title, got.refresh) == ("A B", "/New")


@given(st.text(alphabet="<>/!-=\"' abpdivtrscx&;[]?\n\x00é", max_size=200))
@settings(max_examples=400)
def test_whatever_is_sent_is_read(html: str):
    read_page(html, URL)


@given(st.binary(max_size=300), st.sampled_from(["", "utf-8", "shift_jis", "gbk", "utf-16", "no-such", "euc-kr", "hz"]), st.booleans())
def test_whatever_bytes_are_decoded(body: bytes, header: str, whole: bool):
    decode(body, header, markup=True, whole=whole).text.encode("utf-8")


HOSTILE = {
    "comments": "<!--", "tags": "<a ", "ends": "</a", "quotes": "<a b=\"", "nested": "<div>", "deep": "<b><i><p>", "quoted": "<blockquote>x\n<br>",
    "lists": "<ul><li>x", "tables": "<table><tr><td>x", "cdata": "<![CDATA[", "attributes": "<a " + "b=c " * 50 + ">", "entities": "&amp", "scripts": "<script></",
    "headers": ("<header>" * 140, "<i></i>"), "cells": ("<table><tr><td>" * 40, "<i></i>"), "layouts": ("<table><tr><td>a</td><td>" * 40, "<p>x"),
    "groups": ("<dl><div>" * 60, "<dt>x<dd>y"), "divisions": ("<dl>" + "<div>" * 60, "<dt>x"), "links": "<a href=/x>", "sheet": "<style>.q{color:red}</style><p class='q r s'>x",
    "spans": "<p><span>x", "closing": "</p></div></table>", "colspan": "<table><tr><td colspan=9999>x</table>", "less": "<", "instructions": "<?x", "paragraphs": "<span><p>",
}  # fmt: skip


@pytest.mark.parametrize("kind", HOSTILE)
def test_the_work_grows_with_the_length_alone(kind: str):
    """Counted in calls of functions: what grows with the square would make sixteen times as many, not four."""

    def work(times: int) -> int:
        calls = 0

        def count(frame: object, event: str, arg: object) -> None:
            nonlocal calls
            calls += 1

        hostile = HOSTILE[kind]
        html = hostile * times if isinstance(hostile, str) else hostile[0] + hostile[1] * times
        sys.setprofile(count)
        try:
            made = len(read_page(html, URL).text)
        finally:
            sys.setprofile(None)
        return calls + made

    work(10)
    assert work(4_000) <= 5 * work(1_000) + 2_000


def test_a_page_of_too_many_parts_is_read_in_part():
    page = parse("<br>" * 250_010)
    assert sum(1 for _ in page.walk()) == 250_001 and "cut" in page.attributes
    assert not read_page("<p>x" * 1_000, URL).cut


