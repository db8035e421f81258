"""The character set of a page, as browsers find it."""

from __future__ import annotations

import codecs

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.sites.extract.small_site import SmallSite, fields, read, saved

from gossamer.sites.extract.charset import charset

RULE = "fields: {title: h1, text: p.t}"


@pytest.mark.parametrize(
    ("name", "title", "text"),
    [
        ("gbk.html", "蜘蛛论坛", "编译器与网络爬虫：第一章。"),
        ("shift_jis.html", "日本語の掲示板", "表示能力ソ十貼。①"),
        ("windows-1251.html", "Новости дня", "Ёлка — «пауки» и сети"),
        ("utf-16.html", "Ünïcode ✓", "sixteen – bits"),
    ],
)
def test_saved_pages_that_say_what_they_are(name: str, title: str, text: str) -> None:
    reading = read(RULE, saved(name), content_type="text/html")
    assert reading.records[0].fields == {"title": title, "text": text}
    assert reading.notes == ()


def test_a_page_that_says_nothing_and_is_not_utf8() -> None:
    reading = read(RULE, saved("undeclared-latin.html"), content_type="text/html")
    assert reading.records[0].fields == {"title": "Café Zoë", "text": "naïve façade “quoted” – £5"}
    assert reading.notes == (
        "charset: the page says none and is not UTF-8; it was read as cp1252 (encoding: in the layer sets another)",
    )


def p(text: str) -> str:
    return f"<p>{text}</p>"


@pytest.mark.parametrize(
    ("body", "content_type", "name"),
    [
        (codecs.BOM_UTF8 + p("é").encode(), "text/html; charset=gbk", "utf-8"),
        (codecs.BOM_UTF16_LE + p("é").encode("utf-16-le"), "text/html; charset=utf-8", "utf-16-le"),
        (codecs.BOM_UTF16_BE + p("é").encode("utf-16-be"), "", "utf-16-be"),
        (p("é").encode("utf-16-le"), "text/html", "utf-16-le"),
        (p("é").encode("utf-16-be"), "text/html", "utf-16-be"),
        (p("é").encode("cp1252"), "text/html; charset=ISO-8859-1", "cp1252"),
        (p("é").encode(), "text/html; charset=ISO-8859-1", "cp1252"),
        (p("中").encode("gbk"), "text/html; charset=x-gbk", "gb18030"),
        (b"<meta charset=iso88592>" + p("ł").encode("iso8859-2"), "", "iso8859-2"),
        ('{"t": "é"}'.encode(), "application/json;charset=ISO-8859-1", "utf-8"),
        ('{"t": "é"}'.encode("cp1252"), "application/json;charset=ISO-8859-1", "cp1252"),
        ('{"t": "中"}'.encode("gbk"), "application/json;charset=gbk", "gb18030"),
        (b"<meta charset=gbk>" + p("é").encode(), "text/html;charset=UTF-8", "utf-8"),
        (b"<meta charset=gbk>" + p("中").encode("gbk"), 'text/html; charset="nonsense"', "gb18030"),
        (b"<meta charset=utf-16>" + p("é").encode(), "text/html", "utf-8"),
        (b'<?xml version="1.0" encoding="koi8-r"?>' + p("я").encode("koi8-r"), "", "koi8-r"),
        (b"<!-- <meta charset=gbk> --><meta charset=windows-1251>" + p("я").encode("cp1251"), "", "cp1251"),
        (b"<html>" + b" " * 2000 + b"<meta charset=windows-1251>" + p("я").encode("cp1251"), "", "cp1251"),
        (b"<meta charset=rot13>" + p("é").encode(), "", "utf-8"),
        (b"<meta charset=unicode_escape>" + p("\\u00e9é").encode(), "", "utf-8"),
        (b"<meta charset=utf-7>" + p("+ADw-é").encode(), "", "utf-8"),
        (p("é").encode(), "text/html; charset=hex", "utf-8"),
        (p("é" * 50).encode() + b"\xff", "", "utf-8"),
        (p("é").encode("cp1252") * 9, "", "cp1252"),
        (p("日本").encode("euc-jp"), "text/html; charset=euc-jp", "euc_jp"),
        (p("한국").encode("euc-kr"), "text/html; charset=ks_c_5601-1987", "cp949"),
        (p("x").encode(), "text/html; charset=\u2603", "utf-8"),
        (b"<meta charset=iso-8859-2>" + p("\u0150r").encode("iso8859-2"), "text/html; charset=utf-8", "iso8859-2"),
        (b"<meta charset=iso-8859-1>" + p("Größe").encode("cp1252"), "text/html; charset=utf-8", "cp1252"),
        (b"<meta charset=iso-8859-1>" + p("Größe").encode() + b"\xff", "text/html; charset=utf-8", "utf-8"),
        (b"<meta charset=windows-1250>" + p("š“").encode("cp1250"), "text/html; charset=iso-8859-2", "cp1250"),
        (b'<?xml version="1.0" encoding="iso-8859-1"?><a>\xfc</a>', "text/xml; charset=utf-8", "cp1252"),
        (p("é").encode("utf-16-le"), "text/html; charset=utf-16", "utf-16-le"),
        (p("é").encode("utf-16-be"), "text/html; charset=utf-16", "utf-16-be"),
    ],
)
def test_what_goes_before_what(body: bytes, content_type: str, name: str) -> None:
    result = charset.read(body, content_type)
    assert (result.codec or charset.declared(body, content_type) or "utf-8") == name
    assert result.text.startswith(("<", "{"))


@pytest.mark.parametrize(
    ("encoding", "body"),
    [
        ("gbk", "中".encode("gbk")),
        ("utf-16", "中".encode("utf-16")),
        ("utf-16", "中".encode("utf-16-le")),
        ("UTF8", codecs.BOM_UTF8 + "中".encode()),
    ],
)
def test_the_encoding_of_the_layer_goes_before_all(encoding: str, body: bytes) -> None:
    found = fields(
        f"format: text\nencoding: {encoding}\nfields: {{t: {{from: content}}}}",
        body,
        content_type="text/html; charset=windows-1251",
    )
    assert found == {"t": "中"}


def test_bytes_that_do_not_fit_are_replaced_and_noted() -> None:
    reading = read("fields: {t: p}", b"<p>a\xffb\x81</p><p>later</p>", content_type="text/html; charset=utf-8")
    assert reading.records[0].fields == {"t": "a\ufffdb\ufffd"}
    assert reading.notes == (
        "charset: the page is not all utf-8; what did not fit was replaced (encoding: in the layer sets another)",
    )


def test_the_euro_of_gbk() -> None:
    assert fields("fields: {t: p}", b"<p>\x80 5 \xff</p>", content_type="text/html; charset=gbk") == {"t": "€ 5 \ufffd"}


def test_ascii_pages_need_no_charset_but_escapes_do() -> None:
    assert fields(
        "fields: {t: p}", "<p>日本</p>".encode("iso-2022-jp"), content_type="text/html; charset=iso-2022-jp"
    ) == {"t": "日本"}
    assert fields("fields: {t: p}", b"<p>&#26085;</p>", content_type="text/html; charset=iso-2022-jp") == {"t": "日"}


LABELS = st.one_of(
    st.text(max_size=20),
    st.sampled_from(
        ["utf-8", "base64", "zlib", "idna", "punycode", "undefined", "mbcs", "utf-32", "utf_8_sig", "hz", "\0"]
    ),
)


@given(st.binary(max_size=200), LABELS, LABELS)
@settings(deadline=None)
def test_no_bytes_and_no_label_is_an_error(body: bytes, header: str, label: str) -> None:
    for page in (body, b"<meta charset='" + label.encode() + b"'>" + body):
        for encoding in (label, None):
            assert isinstance(charset.read(page, f"text/html; charset={header}", encoding).text, str)
            assert isinstance(charset.read(page, encoding=encoding).text, str)


@given(st.text(min_size=1, max_size=50), st.sampled_from(["utf-8", "gb18030", "utf-16-le", "utf-16-be"]))
@settings(deadline=None)
def test_what_is_said_is_what_is_read(text: str, codec: str) -> None:
    body = text.encode(codec, "ignore")
    assert charset.read(body, encoding=codec).text == body.decode(codec).removeprefix("\ufeff")


TEXTS = {
    "gb18030": "编译器把源代码翻译成目标程序。昨天晚上，论坛里的用户讨论了这个问题，并且提出了许多有用的建议。",
    "big5": "編譯器把原始碼翻譯成目的程式。昨天晚上，論壇裡的使用者討論了這個問題，並且提出了許多有用的建議。",
    "cp932": "昨日の夜、掲示板で利用者がこの問題について話し合い、役に立つ提案をたくさん出しました。表示能力もソフトで十分です。",
    "euc_jp": "昨日の夜、掲示板で利用者がこの問題について話し合い、役に立つ提案をたくさん出しました。表示能力もソフトで十分です。",
    "cp949": "어제 저녁 게시판에서 사용자들이 이 문제에 대해 이야기하고 쓸모 있는 제안을 많이 내놓았습니다.",
    "cp1251": "Вчера вечером пользователи форума обсудили этот вопрос и внесли много полезных предложений. Цены снижены.",
    "koi8-r": "Вчера вечером пользователи форума обсудили этот вопрос и внесли много полезных предложений. Цены снижены.",
    "iso8859-2": "Wczoraj wieczorem użytkownicy forum omówili to zagadnienie i zgłosili wiele pożytecznych wniosków. Ceny są niższe niż myślał książę.",
    "cp1250": "Včera večer uživatelé fóra projednali tuto otázku a předložili mnoho užitečných návrhů. Žluťoučký kůň šel ještě dál.",
    "cp1252": "Gestern Abend haben die Nutzer über diese Frage gesprochen und viele nützliche Vorschläge gemacht. Größere Mühe wäre nötig gewesen.",
    "cp1253": "Χθες το βράδυ οι χρήστες του φόρουμ συζήτησαν αυτό το θέμα και έκαναν πολλές χρήσιμες προτάσεις. Άρα ναι.",
    "cp1254": "Dün akşam forumdaki kullanıcılar bu konuyu görüştüler ve birçok yararlı öneride bulundular. Fiyatlar düştü, ışık açık kaldı.",
    "cp1255": "אתמול בערב דנו משתמשי הפורום בשאלה הזאת והעלו הצעות מועילות רבות. המחירים ירדו.",
    "cp1256": "ناقش مستخدمو المنتدى هذه المسألة مساء أمس وقدموا اقتراحات كثيرة مفيدة. انخفضت الأسعار.",
    "cp1257": "Vakar vakare forumo naudotojai aptarė šį klausimą ir pateikė daug naudingų pasiūlymų. Kainos sumažėjo, žąsys išskrido.",
    "cp874": "เมื่อวานตอนเย็นผู้ใช้ในกระดานข่าวได้พูดคุยเรื่องนี้และเสนอความคิดที่มีประโยชน์มากมาย",
}
LEGACY = sorted(TEXTS)
PAGE = '<html><head><title>{0}</title><script>if (a < b) {{ go("x"); }}</script></head><body class="old"><p class="t">{0}</p></body></html>'


def legacy(name: str, times: int = 1) -> tuple[bytes, str]:
    text = " ".join([TEXTS[name]] * times)
    return PAGE.format(text).encode(name), text


@pytest.mark.parametrize("times", [1, 40])
@pytest.mark.parametrize("name", LEGACY)
def test_a_page_that_says_nothing_is_read_as_what_its_bytes_look_like(name: str, times: int) -> None:
    body, text = legacy(name, times)
    reading = read("fields: {t: p.t}", body, content_type="text/html")
    assert reading.records[0].fields == {"t": text}
    assert reading.doubt == charset.GUESSED
    assert reading.notes[0].startswith("charset: the page says none and is not UTF-8; it was read as ")


@pytest.mark.parametrize("name", LEGACY)
def test_a_page_that_is_mostly_english_and_has_the_same_sign_at_each_headline(name: str) -> None:
    sign = "\u00b6".encode(name, "ignore") or "\u2014".encode(name, "ignore")
    parts = [f"<h2>Section {n}<a>".encode() + sign + b"</a></h2>" for n in range(60)]
    parts += [f"<p>In chapter {n} we read of commands, files and tables ".encode() + sign + b"</p>" for n in range(60)]
    body = b"".join(parts) + legacy(name)[0]
    reading = read("fields: {t: p.t}", body, content_type="text/html")
    assert reading.records[0].fields == {"t": TEXTS[name]}


@pytest.mark.parametrize("name", LEGACY)
@pytest.mark.parametrize("wrong", ["header", "meta"])
def test_what_a_page_says_loses_against_bytes_that_it_cannot_decode(name: str, wrong: str) -> None:
    body, text = legacy(name)
    if wrong == "meta":
        body = body.replace(b"<head>", b"<head><meta charset=utf-8>")
    reading = read("fields: {t: p.t}", body, content_type=f"text/html{'; charset=utf-8' if wrong == 'header' else ''}")
    assert reading.records[0].fields == {"t": text}
    assert reading.doubt == charset.GUESSED
    assert reading.notes[0].startswith("charset: the page says utf-8, which does not fit; it was read as ")


@pytest.mark.parametrize("label", ["gbk", "shift_jis", "windows-1252", "euc-kr"])
def test_a_page_of_another_label_that_is_utf_8(label: str) -> None:
    text = TEXTS["gb18030"] + TEXTS["cp932"]
    result = charset.read(PAGE.format(text).encode(), f"text/html; charset={label}")
    assert (result.text == PAGE.format(text), result.doubt) == (True, charset.GUESSED)


def test_a_page_that_a_browser_would_read_wrong_is_read_so_and_counted() -> None:
    reading = read("fields: {t: p}", p("Zoë").encode(), content_type="text/html; charset=iso-8859-1")
    assert reading.records[0].fields == {"t": "ZoÃ«"}
    assert reading.doubt == charset.GUESSED
    assert "all of it is UTF-8" in reading.notes[0]


@pytest.mark.parametrize("name", ["gb18030", "big5", "cp932", "euc_jp", "cp949", "cp1253", "cp1255", "cp874"])
def test_a_damaged_byte_does_not_change_what_a_page_is_taken_for(name: str) -> None:
    body, text = legacy(name, 10)
    place = body.rindex(b"</p>") - len(body) // 4 * 2
    body = body[:place] + (b"\xff" if name[:3] == "cp1" or name == "cp874" else b"\x85\x20") + body[place:]
    result = charset.read(body)
    assert result.doubt == charset.REPLACED
    assert result.text[:200] == PAGE.format(text)[:200]
    said = charset.read(body, f"text/html; charset={name}")
    assert (said.codec, said.doubt) == (result.codec, charset.REPLACED)


@pytest.mark.parametrize("text", ["© 2004", "It’s – fine", "£5", "25 °C", "Straße", "“Öffnungszeiten”", "café", "\xa0"])
def test_a_few_signs_of_western_typesetters_are_windows_1252(text: str) -> None:
    assert charset.read(p(text).encode("cp1252")).text == p(text)


def test_japanese_mail_encoding_is_recognised_by_its_escapes() -> None:
    result = charset.read(p("昨日の夜").encode("iso-2022-jp"))
    assert (result.text, result.doubt) == (p("昨日の夜"), charset.GUESSED)


def test_the_text_may_come_after_much_markup() -> None:
    body = b"<script>" + b"x = 1; " * 100_000 + b"</script>" + legacy("gb18030")[0]
    assert TEXTS["gb18030"] in charset.read(body).text


@pytest.mark.parametrize(
    "body",
    [
        b"\xff" * 1_000_000,
        b"<\xe4" * 500_000,
        b"\x81\x30" * 500_000,
        bytes(range(128, 256)) * 8_000,
        "".join(map(chr, range(0x4E00, 0x9000))).encode() * 10 + b"\xff" * 10,
        b"a\x81<" * 300_000,
    ],
)
def test_only_a_part_of_a_page_is_looked_at_to_guess(body: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[int] = []
    detector = charset._detector()

    def detect(piece: bytes, **options: object) -> object:
        looked.append(len(piece))
        return detector(piece, **options)

    monkeypatch.setattr(charset, "_detector", lambda: detect)
    for label in ("", "text/html; charset=utf-8", "text/html; charset=iso-8859-1"):
        charset.read(body, label)
    assert sum(looked) < 500_000


@pytest.mark.parametrize("body", [b"<p>plain</p>", p("é中").encode(), p("é").encode("cp1252")])
def test_pages_in_ascii_or_utf_8_or_as_they_say_are_not_guessed(body: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(charset, "_detector", lambda: pytest.fail("guessed"))
    said = "" if body.isascii() or b"\xc3" in body else "text/html; charset=iso-8859-1"
    assert charset.read(body, said).doubt == ""


@pytest.mark.parametrize("where", ["inherited", "match", "params"])
def test_the_encoding_of_a_layer_may_come_from_a_name(where: str) -> None:
    rule = 'encoding: "{enc}"\nfields: {t: p}'
    body = p("Цены").encode("koi8-r")
    inherited: dict[str, str] = {"enc": "koi8-r"} if where == "inherited" else {}
    site = SmallSite(enc="koi8-r") if where == "params" else SmallSite()
    if where == "match":
        rule = rule.replace("{enc}", "{forum}")
    found = read(
        rule,
        body,
        url="http://bbs.example/list/koi8/3",
        content_type="text/html; charset=utf-8",
        site=site,
        inherited=inherited,
    )
    assert found.records[0].fields == {"t": "Цены"}
    assert found.notes == ()


def test_a_name_that_stands_for_no_character_set_is_noted() -> None:
    found = read('encoding: "{enc}"\nfields: {t: p}', p("é").encode(), inherited={"enc": "unicode_escape"})
    assert found.records[0].fields == {"t": "é"}
    assert found.notes == ("encoding: {enc} stands for unicode_escape, which is not a character set",)
