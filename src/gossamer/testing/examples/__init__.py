"""Local sites for the files in examples/sites: a forum, fifty newspapers, a shop and an API.

`python -m gossamer.testing.examples forum` serves one of them where its site file looks for it.
"""

from gossamer.testing.examples.api import ApiExample
from gossamer.testing.examples.forum import ForumExample
from gossamer.testing.examples.news import NewsExample
from gossamer.testing.examples.server import Example
from gossamer.testing.examples.shop import ShopExample

EXAMPLES: dict[str, type[Example]] = {
    example.name: example for example in (ForumExample, NewsExample, ShopExample, ApiExample)
}

__all__ = ["EXAMPLES", "ApiExample", "Example", "ForumExample", "NewsExample", "ShopExample"]
