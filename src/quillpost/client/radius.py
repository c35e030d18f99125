"""Searching for the addresses around one."""

from typing import NotRequired, TypedDict

from quillpost.client.requests import Id


class RadiusSearch(TypedDict):
    """The nearest to an address, for five cents each."""

    address: str
    record_count: NotRequired[int]
    distance_miles: NotRequired[float]
    postal_code: NotRequired[str]
    record_types: NotRequired[str]
    include_condos: NotRequired[bool]
    include_businesses: NotRequired[bool]
    use_property_owner: NotRequired[bool]
    include_search_address: NotRequired[bool]
    exclude_already_mailed: NotRequired[bool]
    mailed_within_days: NotRequired[int]


class RadiusCall(RadiusSearch):
    mailing_list_id: NotRequired[Id]
    sub_account_id: NotRequired[Id]
    description: NotRequired[str]
    name: NotRequired[str]


class RadiusCount(TypedDict):
    message: str
    count: int
    leads_fee: int


class RadiusBought(TypedDict):
    message: str
    mailing_list_id: int
    count: int
    leads_fee: int
    failure: bool
