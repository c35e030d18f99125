"""The words of a notice as a small HTML page for mail programs: it says the same, asks nobody for pictures,
and takes the reader's own colours by day and by night."""

import re
from collections.abc import Iterator, Sequence
from html import escape

LINK = re.compile(r"https?://[^\s<>\"]*[^\s<>\".,;:!?)]")
PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="supported-color-schemes" content="light dark">
<title>{title}</title>
<style>
:root {{ color-scheme: light dark; }}
body {{ margin: 0; padding: 24px 16px; font: 16px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, Arial, sans-serif; }}
main {{ max-width: 560px; margin: 0 auto; }}
h1 {{ font: 600 22px/1.3 Georgia, "Times New Roman", serif; margin: 0 0 16px; }}
p, ul {{ margin: 0 0 16px; }}
ul {{ padding-left: 20px; }}
li {{ margin: 0 0 4px; }}
footer {{ border-top: 1px solid #8886; margin-top: 24px; padding-top: 12px; font-size: 13px; opacity: .75; }}
footer p {{ margin: 0 0 8px; }}
</style>
</head>
<body>
<main>
<h1>{title}</h1>
{body}
<footer>
{footer}
</footer>
</main>
</body>
</html>
"""  # noqa: E501


def page(title: str, words: str, footer: Sequence[str], *, unsubscribe: str | None) -> str:
    """Paragraphs are set apart by empty lines; lines that begin with `- ` are a list; addresses are links."""
    ends = [f"<p>{_linked(line)}</p>" for line in footer]
    if unsubscribe is not None:
        ends.append(f'<p><a href="{escape(unsubscribe)}">Unsubscribe</a></p>')
    return PAGE.format(title=escape(title), body="\n".join(_blocks(words)), footer="\n".join(ends))


def _blocks(words: str) -> Iterator[str]:
    for block in re.split(r"\n\s*\n", words.strip()):
        lines = block.splitlines()
        if all(line.startswith("- ") for line in lines):
            yield "<ul>\n" + "\n".join(f"<li>{_linked(line[2:])}</li>" for line in lines) + "\n</ul>"
        else:
            yield "<p>" + "<br>\n".join(map(_linked, lines)) + "</p>"


def _linked(text: str) -> str:
    """Escaped, and every address in it a link."""
    made, done = [], 0
    for found in LINK.finditer(text):
        shown = escape(found.group())
        made += [escape(text[done : found.start()]), f'<a href="{shown}">{shown}</a>']
        done = found.end()
    return "".join(made) + escape(text[done:])
