"""URLs as crawls meet them, without end: tidy ones, careless ones, and broken ones.

The same seed gives the same URLs. Nothing here is taken from a real site.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator

WORDS = ("news", "item", "topic", "thread", "user", "image", "archive", "2026", "Über-uns", "été", "статья", "商品", "a-b_c", "v1.2", "x~y", "O'Neil", "C++")  # fmt: skip
NAMES = ("page", "id", "q", "sort", "utm_source", "utm_campaign", "lang", "ref", "a", "a.b", "a-b", "A", "filter[]", "filter%5B%5D", "k%C3%A9y", "s p", "")  # fmt: skip
VALUES = ("1", "22", "", "asc", "caf%C3%A9", "caf%e9", "a+b", "a%20b", "%2B", "x=y", "x%3Dy", "1,2", "http://other.example/?u=1", "100%", "%zz", "тест", "~", "%7E", "%00", "a%26b", "'")  # fmt: skip
ODD = "".join(map(chr, range(0x20, 0x7F))) + "éßжñ漢\u00a0\u2028"
PIECES = ("%", "%2F", "%2f", "%25", "%3B", "%23", "%2E", "%C3%A9", "%e9", "%00", "%41", "/", "//", "/./", "/../", "/.", "?", "&", "&&", "=", "==", "+", ";", ";p=1", "#", "#!", "@", ":", ":80", "[", "]", "|", "\\", " ", "\t", "\n")  # fmt: skip


class Urls:
    """A stream of URLs. `tidy` ones are canonical but for the order of their arguments; `wild` ones are anything."""

    def __init__(self, seed: int = 0) -> None:
        self._random = random.Random(seed)
        self._kinds: tuple[tuple[Callable[[], str], int], ...] = (
            (self.tidy, 8), (self.careless, 6), (self.broken, 5), (self.special, 1),
        )  # fmt: skip

    def wild(self, number: int) -> Iterator[str]:
        makers, weights = zip(*self._kinds, strict=True)
        for _ in range(number):
            yield self._random.choices(makers, weights)[0]()

    def tidy(self) -> str:
        """As most links of most sites are: a plain host, a path of words and numbers, perhaps a few arguments."""
        pick = self._random
        place = f"{pick.choice(('http', 'https'))}://{pick.choice(('www.', 'm.', ''))}site{pick.randrange(500)}.example"
        port = pick.choice((":8080", ":31415", "")) if pick.random() < 0.1 else ""
        path = f"/section/{pick.randrange(100)}/topic/{pick.randrange(10**7)}-some-title-of-it"
        return place + port + path + self._query(pick.choice((0, 0, 1, 1, 2, 3)))

    def _query(self, number: int) -> str:
        pick = self._random
        names = ("page", "id", "sort", "lang", "ref", "a.b", "a-b", "a", "utm_source")
        words = [
            f"{pick.choice(names)}={pick.choice(('', pick.randrange(1000), 'a+b', '%2B', 'x'))}" for _ in range(number)
        ]
        return "?" + "&".join(words) if words else ""

    def careless(self) -> str:
        """As people and programs write them: unescaped, in any case, with ports, parameters and fragments."""
        pick = self._random
        scheme = pick.choice(("http", "https", "http", "https", "HTTP", "Https", "ftp"))
        user = pick.choice(("user@", "user:pa%20ss@", "")) if pick.random() < 0.05 else ""
        host = pick.choice(("example.com", "EXAMPLE.com", "bücher.example", "xn--bcher-kva.example", "a_b.example", "127.0.0.1", "[::1]", "example.com.", "1.2.example"))  # fmt: skip
        port = (
            pick.choice((":80", ":443", ":8080", ":", ":080", ":65535", ":65536", ":0")) if pick.random() < 0.2 else ""
        )
        depth = pick.choice((0, 1, 1, 2, 3))
        path = "".join("/" + pick.choice(WORDS) for _ in range(depth)) + pick.choice(
            ("", "", "/", "//", "/.", "/..", ".html", ";a=1")
        )
        arguments = [
            pick.choice(NAMES) + pick.choice(("=", "=", "=", "")) + pick.choice(VALUES)
            for _ in range(pick.randrange(5))
        ]
        query = (
            "?" + pick.choice(("&", "&", "&", "&&", ";")).join(arguments) if arguments or pick.random() < 0.1 else ""
        )
        fragment = pick.choice(("#top", "#", "#!/a/b", "#é", "#a?b=c", "#%41")) if pick.random() < 0.2 else ""
        return f"{scheme}://{user}{host}{port}{path}{query}{fragment}"

    def broken(self) -> str:
        """A tidy or careless one with something put in, taken out or doubled: close to the border between both ways."""
        pick = self._random
        url = self.tidy() if pick.random() < 0.7 else self.careless()
        for _ in range(pick.choice((1, 1, 2, 3))):
            at = pick.randrange(len(url) + 1)
            inserted = pick.choice(PIECES) if pick.random() < 0.6 else pick.choice(ODD)
            taken = pick.choice((0, 0, 1, 2))
            url = url[:at] + inserted + url[at + taken :]
        return url

    def special(self) -> str:
        pick = self._random
        forms = (
            "data:text/html,<p>{0}</p>", "data:,{0}", "mailto:a/../b{0}@example.com", "javascript:void({0})",
            "file:///tmp/{0}/../x", "http://?{0}", "http:///{0}", "//example.com/{0}", "/only/{0}", "{0}", "",
            "http://.example/{0}", "http://a..b/{0}", "http://" + "x" * 70 + ".example/{0}", "s3://bucket/{0};v=1",
            "http://[::0:{0}]/", "http://[v1.x]/{0}", "http://user@[::1]:80/{0}", "http://example.com/{0}?" + "a=1&" * 30,
        )  # fmt: skip
        return pick.choice(forms).format(pick.randrange(1000))
