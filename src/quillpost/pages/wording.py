"""Numbers, money and moments, as pages write them."""

from datetime import datetime, tzinfo

from markupsafe import Markup

from quillpost.composition.words.address_format import address_lines
from quillpost.composition.words.country_names import country_name


def number(n: int) -> str:
    return f"{n:,}"


def cents(amount: int) -> str:
    """`$1,234.50`, and below zero `−$3.00`."""
    sign = "\N{MINUS SIGN}" if amount < 0 else ""
    return f"{sign}${abs(amount) // 100:,}.{abs(amount) % 100:02d}"


def plural(n: int, one: str, many: str | None = None) -> str:
    """`1 piece`, `2,000 pieces`."""
    return f"{n:,} {one if n == 1 else many or one + 's'}"


def town(city: str | None, province: str | None, postal_code: str | None, country: str | None = "US") -> str:
    """`Austin, TX 78701`; abroad as the country writes it, with its name: `10115 Berlin, Germany`."""
    if country in (None, "US"):
        return ", ".join(filter(None, (city, " ".join(filter(None, (province, postal_code))))))
    return ", ".join([*address_lines(country, [], city, province, postal_code), country_name(country or "")])


def day(at: datetime, zone: tzinfo) -> str:
    """A date that nobody reads the wrong way round: `4 May 2026`."""
    there = at.astimezone(zone)
    return f"{there.day} {there:%b %Y}"


def moment(at: datetime, zone: tzinfo, words: str | None = None, *, has_year: bool = False) -> Markup:
    """A `time` element: in the reader's zone, or in `words` such as `3 minutes ago`. Whoever points at it
    sees all of it, and a script puts it right where the reader's zone was not known. `has_year`: it may be
    long ago."""
    there = at.astimezone(zone)
    exact = f"{there.day} {there:%b %Y, %H:%M}"
    full = Markup('<time datetime="{at}" title="{exact} {name}"{kind}>{shown}</time>')
    kind = Markup("")
    if words is None:
        kind = Markup(' data-moment="year"') if has_year else Markup(" data-moment")
        words = exact if has_year else f"{there.day} {there:%b, %H:%M}"
    return full.format(at=at.isoformat(), exact=exact, name=there.tzname(), kind=kind, shown=words)
