"""How much may come in. Judged from headers, before anything is decoded."""

MOST_BYTES = 40_000_000

# Telephones take pictures of 50 million; a letter with its bleed shows 35 million on the finest press.
MOST_PIXELS = 60_000_000
FINEST_DPI = 600
MOST_PIXELS_DRAWN = 40_000_000
LARGEST_SHEET_PIXELS = (round(8.75 * FINEST_DPI), round(11.25 * FINEST_DPI))

# As in a JPEG file. Bounds a row, and so the smallest strip.
LONGEST_SIDE = 65_535

MOST_PROFILE_BYTES = 1_000_000

MOST_PAGES = 60

# Objects of a PDF that are not packed. Readers look at each one before they know what it is for.
MOST_OBJECTS = 200_000

# The drawing of one page, inflated; pictures and fonts not counted.
MOST_CONTENT_BYTES = 50_000_000


# What a page draws, everything counted as often as it is drawn.
MOST_DRAWN = 1_000_000


def megabytes(size: int) -> str:
    """A limit as a person reads it."""
    return f"{size // 1_000_000} MB"
