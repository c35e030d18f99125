"""Every sentence and phrase that our code and our pages can say, whichever file says it.

Code is read, not run: what is filled into a text is `{}`, and a text that is put together of several has each
of them as a line of its own. SQL, markup and regular expressions are left out, and so are single words.
"""

import ast
import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

from jinja2 import Environment, nodes

TEXTUAL = (ast.Constant, ast.JoinedStr, ast.BinOp)
HELD = re.compile(r"\{[\w.!]*(?::[^{}]*)?\}|%\(\w+\)[sd]|%[sd]")
"""A place that something is filled in at, however it is written."""
WORDS = re.compile(r"\S\s+\S")
LETTERS = re.compile(r"[^\W\d_]{2}")
SENTENCE = re.compile(r"\s*[\"'“‘`({]*(?:[A-Z]|\{\}|(?<=`)\w).*[.?!:…][\"'”’`)]*\s*", re.DOTALL)

COMPUTED = re.compile(r"\{\{.*?\}\}", re.DOTALL)
CONTROL = re.compile(r"\{[%#].*?[%#]\}", re.DOTALL)

MARKUP = re.compile(r"</[a-z]|<[a-z]+ [a-z-]+=|<[!?]|\(\?[:=!<P]|\\[sdwb]|\[[A-Za-z0-9]-[A-Za-z0-9]|'(?:self|none)'")
"""HTML, regular expressions, and the rules of a page's content."""
ANNOTATION = re.compile(r"[\w.\[\]]+(?: \| [\w.\[\]]+)+")
SQL = re.compile(
    r"""
    ^\W*(?:select|insert\ into|update\ \S+\ set|delete\ from|with\ \w+\ as|values\ \(|lock\ table|copy
        |truncate|create\ (?:database|role|temp|table|index|policy)|drop\ (?:table|database|owned)|alter\s
        |vacuum\ \(|grant\ \w+,?\ |analyze
        |do\ \$\$|set\ (?:local|statement)|set_config|case\ when|exists\ \(|array\(
        |cast\(|coalesce\(|greatest\(|least\(|count\(|to_char\(|skip\ locked|order\ by|show\ \w+_|on\ conflict
        |returning\ )
    | [ (=,]:[a-z]\w* | \b(?:and|or|where|when|not)\ [a-z]\.[a-z] | \bis\ (?:not\ )?null\b | ::[a-z]
    | \ =\ (?:any\(|'|\w+\.) | <> | \|\| | \bin\ \(['{] | \border\ by\b | \bno\ key\ update\b | ^'\w+',
    | ^[a-z]+[._{}]+\w*\ (?:=|<|in|~)\ | \bfrom\ \w+_\w+\s
    """,
    re.VERBOSE,
)


def sentences(source: Path) -> str:
    """What the modules below a folder say, a line each, sorted. Docstrings are for developers alone."""
    found = set()
    for module in source.rglob("*.py"):
        found |= {normal(text) for text in _texts(ast.parse(module.read_text("utf-8")))}
    return lines(filter(is_prose, found))


def page_words(source: Path) -> str:
    """What the templates of pages below a folder say, beside what code has them say."""
    found = set()
    for template in source.rglob("*.html"):
        text = template.read_text("utf-8")
        found |= {normal(each) for each in (*_shown(text), *_passed(text))}
    return lines(each for each in found if LETTERS.search(each))


def normal(text: str) -> str:
    """Without the names of what is filled in: they may change when a variable does."""
    return HELD.sub("{}", text)


def lines(texts: Iterator[str]) -> str:
    """One to a line, in an order that no locale decides."""
    escaped = {text.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r") for text in texts}
    return "".join(f"{text}\n" for text in sorted(escaped))


def is_prose(text: str) -> bool:
    """Whether this is for people: words, and neither markup nor SQL."""
    if text.startswith("\n"):  # a table, or SQL of several lines
        return False
    if not is_words(text) or MARKUP.search(text) or ANNOTATION.fullmatch(text):
        return False
    return bool(SENTENCE.fullmatch(text)) or not SQL.search(text)


def is_words(text: str) -> bool:
    """Whether there is more than one word, or a word beside something that is filled in."""
    return bool(WORDS.search(text) and LETTERS.search(text))


def _texts(module: ast.AST) -> Iterator[str]:
    """Each whole text, but for statements of their own, which document, and types."""
    seen: set[ast.AST | None] = set()
    for node in ast.walk(module):
        if isinstance(node, ast.Expr):
            seen.add(node.value)
        elif isinstance(node, ast.arg | ast.AnnAssign):
            seen.add(node.annotation)
        elif isinstance(node, TEXTUAL) and (text := _text(node)) is not None:
            seen.update(inner for inner in ast.iter_child_nodes(node) if isinstance(inner, TEXTUAL))
            if node not in seen:
                yield text


def _text(node: ast.AST) -> str | None:
    """What a literal, or several that are added up, says."""
    match node:
        case ast.Constant(value=str(text)):
            return text
        case ast.JoinedStr(values=parts):
            return "".join(_text(part) or "{}" for part in parts)
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            texts = (_text(left), _text(right))
            return None if texts == (None, None) else "".join("{}" if t is None else t for t in texts)
    return None


class _Page(HTMLParser):
    """Collects the text between tags, and that of attributes that people read or hear."""

    READ = ("title", "alt", "placeholder", "aria-label", "content", "value", "data-confirm")
    UNREAD = ("script", "style")

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []
        self._at = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._at = tag
        self.found += [value for name, value in attrs if name in self.READ and value]

    def handle_endtag(self, tag: str) -> None:
        if tag == self._at:
            self._at = ""

    def handle_data(self, data: str) -> None:
        if self._at not in self.UNREAD:
            self.found.append(data)


def _shown(template: str) -> Iterator[str]:
    page = _Page()
    page.feed(CONTROL.sub("", COMPUTED.sub("{}", template)))
    page.close()
    return (" ".join(text.split()) for text in page.found)


def _passed(template: str) -> Iterator[str]:
    """Literals in what a template computes: macros are given the words that they show."""
    for node in Environment(autoescape=True).parse(template).find_all(nodes.Const):
        if isinstance(node.value, str) and is_words(node.value) and not MARKUP.search(node.value):
            yield node.value
