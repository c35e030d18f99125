"""Which browser it is, in words, as far as its own long name for itself tells."""

# The first that is found counts: most of them say that they are each other.
BROWSERS = (
    ("Edg/", "Edge"),
    ("OPR/", "Opera"),
    ("Firefox/", "Firefox"),
    ("FxiOS/", "Firefox"),
    ("Chrome/", "Chrome"),
    ("CriOS/", "Chrome"),
    ("Chromium/", "Chromium"),
    ("Safari/", "Safari"),
)
SYSTEMS = (
    ("Android", "Android"),
    ("iPhone", "iPhone"),
    ("iPad", "iPad"),
    ("Windows", "Windows"),
    ("CrOS", "ChromeOS"),
    ("Mac OS X", "macOS"),
    ("Linux", "Linux"),
)
LONGEST = 40


def browser_name(user_agent: str | None) -> str:
    """Firefox on Linux, say; the beginning of its own name for a browser that we do not know."""
    if not user_agent:
        return "Unknown browser"
    browser = next((name for mark, name in BROWSERS if mark in user_agent), None)
    system = next((name for mark, name in SYSTEMS if mark in user_agent), None)
    if browser is None:
        return user_agent[:LONGEST]
    return browser if system is None else f"{browser} on {system}"
