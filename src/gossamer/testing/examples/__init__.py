"""Local sites for the files in examples/sites: a forum, fifty newspapers, a shop, an API, and seven small ones.

`python -m gossamer.testing.examples forum` serves one of them where its site file looks for it.
"""

from gossamer.testing.examples.api import ApiExample
from gossamer.testing.examples.discussions import DiscourseExample, ThreadExample, WordPressExample
from gossamer.testing.examples.forum import ForumExample
from gossamer.testing.examples.login import LoginExample
from gossamer.testing.examples.news import NewsExample
from gossamer.testing.examples.server import Example, SmallExample
from gossamer.testing.examples.shop import ShopExample
from gossamer.testing.examples.turns import AspNetExample, CursorExample, GraphQLExample

SMALL: tuple[type[SmallExample], ...] = (
    ThreadExample,
    DiscourseExample,
    WordPressExample,
    AspNetExample,
    GraphQLExample,
    CursorExample,
    LoginExample,
)
"""Those that show one thing each."""
LARGE: tuple[type[Example], ...] = (ForumExample, NewsExample, ShopExample, ApiExample)
EXAMPLES: dict[str, type[Example]] = {example.name: example for example in (*LARGE, *SMALL)}

__all__ = [
    "EXAMPLES",
    "SMALL",
    "ApiExample",
    "AspNetExample",
    "CursorExample",
    "DiscourseExample",
    "Example",
    "ForumExample",
    "GraphQLExample",
    "LoginExample",
    "NewsExample",
    "ShopExample",
    "SmallExample",
    "ThreadExample",
    "WordPressExample",
]
