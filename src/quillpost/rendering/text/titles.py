"""Words around the names of people, in small letters: what is a title, a household, a firm."""

import re

PARTICLES = frozenset(
    {"de", "del", "della", "der", "den", "di", "da", "do", "dos", "du", "la", "le", "ten", "ter"}
    | {"van", "von", "zu", "bin", "ibn", "al", "el"}
)
ROMAN_NUMERALS = frozenset({"ii", "iii", "iv"})
DEGREES = frozenset({"md", "dds", "dmd", "dvm", "cpa", "rn", "jd"})
SUFFIXES = frozenset({"jr", "sr", "esq", "phd"}) | ROMAN_NUMERALS | DEGREES
TITLES = frozenset({"mr", "mrs", "ms", "miss", "mx", "dr", "prof", "rev", "sir", "dame", "fr", "hon", "capt", "attn"})
HOUSEHOLD_WORDS = frozenset(
    {"family", "household", "resident", "residents", "occupant", "occupants", "neighbor", "neighbors"}
    | {"neighbour", "neighbours", "homeowner", "homeowners", "customer", "owner"}
)
BUSINESS_WORDS = frozenset(
    {"llc", "llp", "pllc", "inc", "incorporated", "ltd", "limited", "corp", "corporation", "co", "company"}
    | {"plc", "gmbh", "trust", "estate", "foundation", "association", "hoa", "sons", "holdings"}
    | {"properties", "partners", "group", "enterprises"}
)
PLACEHOLDERS = frozenset({"na", "n/a", "none", "null", "nil", "nan", "unknown", "undefined", "anonymous"})
FAMILY_FIRST_SCRIPT = re.compile(
    "[\u3005-\u3007\u3041-\u30ff\u3400-\u9fff\uf900-\ufaff\uac00-\ud7a3\U00020000-\U000323af]+"
)
"""Words of scripts that put the family first and need no space between the parts of a name."""
