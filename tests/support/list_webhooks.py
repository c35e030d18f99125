"""A mailing list's address for other services, and Jane as common ones send her: by the service's name, the body, its
type and what we read of her."""

from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode

from httpx2 import Response

from support.factories import Account
from support.mailing_lists import ListOwner
from support.test_client import TestClient


@dataclass(frozen=True)
class ListWebhook:
    lister: ListOwner
    list_id: int
    key: str

    @property
    def path(self) -> str:
        return f"/hooks/lists/{self.key}"

    @property
    def http(self) -> TestClient:
        return self.lister.account.http

    def send(self, body: Any, query: str = "") -> Response:
        """As JSON; nobody's token is with it."""
        return self.http.post(self.path + query, json=body)

    def send_raw(self, body: bytes, kind: str) -> Response:
        return self.http.post(self.path, content=body, headers={"Content-Type": kind} if kind else {})

    def rows(self, body: Any) -> list[dict[str, Any]]:
        answer = self.send(body)
        assert answer.status_code == 200, answer.text
        found: list[dict[str, Any]] = answer.json()
        return found

    def results(self, body: Any) -> list[str]:
        return [row["result"] for row in self.rows(body)]

    def people(self) -> list[dict[str, Any]]:
        return self.lister.on(self.list_id)


def create_list_webhook(account: Account, description: str = "Visitors", **fields: Any) -> ListWebhook:
    lister = ListOwner(account)
    list_id = lister.make(description, **fields)
    return ListWebhook(lister, list_id, lister.read(list_id)["api_key"])


JSON, FORM = "application/json", "application/x-www-form-urlencoded"

JANE = {
    "name": "Jane Doe", "address": "12 Main St", "city": "Austin", "province": "TX", "postal_code": "78701",
    "email": "jane@example.com",
}  # fmt: skip


@dataclass(frozen=True)
class Payload:
    body: Any
    expected: dict[str, str]
    kind: str = JSON
    ignored: set[str] = field(default_factory=set)

    @property
    def form(self) -> bytes:
        return urlencode(self.body).encode()


# fmt: off
PAYLOADS = {
    "HubSpot workflow": Payload({
        "vid": 3234574, "canonical-vid": 3234574, "portal-id": 62515, "is-contact": True,
        "properties": {
            "firstname": {"value": "Jane", "versions": [{"value": "Jane", "selected": False}]},
            "lastname": {"value": "Doe", "versions": []}, "email": {"value": "jane@example.com", "versions": []},
            "address": {"value": "12 Main St", "versions": []}, "city": {"value": "Austin", "versions": []},
            "state": {"value": "Texas", "versions": []}, "zip": {"value": "78701", "versions": []},
            "country": {"value": "United States", "versions": []},
            "mobilephone": {"value": "512-555-0100", "versions": []}, "company": {"value": "", "versions": []},
            "date_of_birth": {"value": "320630400000", "versions": []},
            "hs_lead_status": {"value": "NEW", "versions": []},
        },
        "form-submissions": [{"page-url": "https://example.com"}], "associated-company": {"company-id": 1},
    }, JANE | {"province": "Texas", "country": "US", "phone": "512-555-0100", "dob": "1980-02-29"}, ignored={
        "vid", "canonical-vid", "portal-id", "is-contact", "properties.hs_lead_status", "form-submissions",
        "associated-company",
    }),
    "HubSpot object": Payload({
        "id": "512",
        "properties": {
            "firstname": "Jane", "lastname": "Doe", "email": "jane@example.com", "address": "12 Main St",
            "city": "Austin", "state": "TX", "zip": "78701", "hs_object_id": "512",
        },
        "archived": False,
    }, JANE, ignored={"id", "properties.hs_object_id", "archived"}),
    "Salesforce contact": Payload({
        "attributes": {"type": "Contact", "url": "/services/data/v61.0/sobjects/Contact/003"}, "Id": "0035g00000ABCDE",
        "FirstName": "Jane", "LastName": "Doe", "Name": "Jane Doe", "Email": "jane@example.com",
        "MailingStreet": "12 Main St\r\nApt 4", "MailingCity": "Austin", "MailingState": "Texas",
        "MailingStateCode": "TX", "MailingPostalCode": "78701", "MailingCountryCode": "US",
        "MailingCountry": "United States", "OtherStreet": "9 Elsewhere Rd", "OtherCity": "Dallas",
        "Birthdate": "1980-02-29", "Custom_1__c": "a blue door",
        "Account": {"attributes": {"type": "Account"}, "Name": "Acme"},
    }, JANE | {"address2": "Apt 4", "country": "US", "company": "Acme", "dob": "1980-02-29", "custom1": "a blue door"},
        ignored={"attributes.type", "attributes.url", "Id", "OtherStreet", "OtherCity", "Account.attributes.type"}),
    "Salesforce lead": Payload({
        "FirstName": "Jane", "LastName": "Doe", "Company": "Acme", "Email": "jane@example.com", "Street": "12 Main St",
        "City": "Austin", "State": "TX", "PostalCode": "78701", "LeadSource": "Web",
    }, JANE | {"company": "Acme"}, ignored={"LeadSource"}),
    "Pipedrive": Payload({
        "data": {
            "id": 12, "name": "Jane Doe", "first_name": "Jane", "last_name": "Doe",
            "emails": [
                {"label": "work", "value": "office@example.com", "primary": False},
                {"label": "home", "value": "jane@example.com", "primary": True},
            ],
            "phones": [{"label": "home", "value": "512-555-0100", "primary": True}], "org_name": "Acme",
            "birthday": "1980-02-29",
            "postal_address": {
                "value": "12 Main St, Austin, TX 78701, USA", "country": "United States", "admin_area_level_1": "Texas",
                "admin_area_level_2": "Travis County", "locality": "Austin", "sublocality": "", "route": "Main St",
                "street_number": "12", "subpremise": "4", "postal_code": "78701",
                "formatted_address": "12 Main St #4, Austin, TX 78701, USA",
            },
        },
        "previous": None, "meta": {"action": "create", "entity": "person", "version": "2.0"},
    }, JANE | {
        "province": "Texas", "country": "US", "address2": "4", "phone": "512-555-0100", "company": "Acme",
        "dob": "1980-02-29",
    }, ignored={
        "data.id", "data.postal_address.admin_area_level_2", "data.postal_address.sublocality", "previous", "meta",
    }),
    "Pipedrive of old": Payload({
        "event": "added.person",
        "current": {
            "name": "Jane Doe", "email": [{"value": "jane@example.com", "primary": True, "label": "work"}],
            "phone": [{"value": "", "primary": True}], "postal_address": "12 Main St, Austin, TX 78701, USA",
            "postal_address_locality": "Austin", "postal_address_admin_area_level_1": "Texas",
            "postal_address_postal_code": "78701",
        },
        "previous": {"name": "Somebody Else"},
    }, {"name": "Jane Doe", "email": "jane@example.com", "address": "12 Main St, Austin, TX 78701, USA"}, ignored={
        "event", "previous",
    }),
    "Mailchimp audience": Payload({
        "type": "subscribe", "fired_at": "2026-03-26 21:35:57", "data[id]": "8a25ff1d98", "data[list_id]": "a6b5da1054",
        "data[email]": "jane@example.com", "data[email_type]": "html", "data[ip_opt]": "10.20.10.30",
        "data[merges][EMAIL]": "jane@example.com", "data[merges][FNAME]": "Jane", "data[merges][LNAME]": "Doe",
        "data[merges][ADDRESS][addr1]": "12 Main St", "data[merges][ADDRESS][addr2]": "",
        "data[merges][ADDRESS][city]": "Austin", "data[merges][ADDRESS][state]": "TX",
        "data[merges][ADDRESS][zip]": "78701", "data[merges][ADDRESS][country]": "US", "data[merges][PHONE]": "",
        "data[merges][BIRTHDAY]": "02/29",
    }, JANE | {"country": "US"}, FORM, {
        "type", "fired_at", "data.id", "data.list_id", "data.email_type", "data.ip_opt", "data.merges.BIRTHDAY",
    }),
    "Mailchimp with an address on one line": Payload({
        "type": "profile", "data[merges][FNAME]": "Jane", "data[merges][LNAME]": "Doe",
        "data[merges][ADDRESS]": "12 Main St  Austin  TX  78701  US",
    }, {"name": "Jane Doe", "address": "12 Main St, Austin, TX, 78701, US"}, FORM, {"type"}),
    "Mailchimp member": Payload({
        "email_address": "jane@example.com", "status": "subscribed",
        "merge_fields": {
            "FNAME": "Jane", "LNAME": "Doe",
            "ADDRESS": {"addr1": "12 Main St", "city": "Austin", "state": "TX", "zip": "78701"},
        },
    }, JANE, ignored={"status"}),
    "ActiveCampaign": Payload({
        "type": "subscribe", "date_time": "2026-03-26T21:35:57-05:00", "initiated_from": "admin", "list": "1",
        "contact[id]": "99", "contact[email]": "jane@example.com", "contact[first_name]": "Jane",
        "contact[last_name]": "Doe", "contact[phone]": "512-555-0100", "contact[orgname]": "",
        "contact[customer_acct_name]": "Acme", "contact[tags]": "buyer, vip",
        "contact[fields][street_address]": "12 Main St", "contact[fields][city]": "Austin",
        "contact[fields][state]": "TX", "contact[fields][zip_code]": "78701", "contact[fields][birthday]": "2/29/1980",
    }, JANE | {"phone": "512-555-0100", "company": "Acme", "dob": "2/29/1980"}, FORM, {
        "type", "date_time", "initiated_from", "list", "contact.id", "contact.tags",
    }),
    "HighLevel event": Payload({
        "type": "ContactCreate", "locationId": "ve9EPM428h8vShlRW1KT", "id": "nmFmQEsNgz6AVpgLVUJ0",
        "address1": "12 Main St", "city": "Austin", "state": "TX", "companyName": "Acme", "country": "US",
        "source": "landing page", "dateAdded": "2026-03-26T21:35:57.000Z", "dateOfBirth": "1980-02-29T00:00:00.000Z",
        "dnd": False, "email": "jane@example.com", "name": "jane doe", "firstName": "Jane", "lastName": "Doe",
        "phone": "+15125550100", "postalCode": "78701", "tags": ["buyer"],
        "customFields": [{"id": "BcdmQEsNgz6AVpgLVUJ0", "value": "x"}],
    }, JANE | {"company": "Acme", "country": "US", "dob": "1980-02-29", "phone": "+15125550100"}, ignored={
        "type", "locationId", "id", "source", "dateAdded", "dnd", "tags", "customFields.BcdmQEsNgz6AVpgLVUJ0",
    }),
    "HighLevel workflow": Payload({
        "contact_id": "nmFmQEsNgz6AVpgLVUJ0", "first_name": "Jane", "last_name": "Doe", "full_name": "Jane Doe",
        "email": "jane@example.com", "address1": "12 Main St", "city": "Austin", "state": "TX", "postal_code": "78701",
        "full_address": "12 Main St Austin TX 78701",
        "location": {"name": "Acme", "address": "1 Office Park", "city": "Reno", "postalCode": "89501"},
        "customData": {"custom1": "a blue door", "email": "jane@example.com"},
    }, JANE | {"custom1": "a blue door"}, ignored={"contact_id", "location"}),
    "Zapier": Payload({
        "First Name": "Jane", "Last Name": "Doe", "E-mail": "jane@example.com", "Street Address": "12 Main St",
        "Address Line 2": "Apt 4", "City": "Austin", "State/Province": "TX", "ZIP / Postal Code": 78701,
        "Custom Field 2": "green", "Notes": "call first",
    }, JANE | {"address2": "Apt 4", "custom2": "green"}, ignored={"Notes"}),
    "Make": Payload({
        "contact": {
            "fullName": "Jane Doe", "emailAddress": "jane@example.com",
            "address": {"street": "12 Main St", "city": "Austin", "region": "TX", "postcode": "78701"},
        },
    }, JANE),
    "Follow Up Boss": Payload({
        "people": [
            {
                "id": 18990, "firstName": "Jane", "lastName": "Doe", "stage": "Lead",
                "emails": [
                    {"value": "old@example.com", "type": "home", "isPrimary": 0},
                    {"value": "jane@example.com", "type": "home", "isPrimary": 1},
                ],
                "phones": [{"value": "5125550100", "type": "mobile", "isPrimary": 1}],
                "addresses": [
                    {
                        "type": "home", "street": "12 Main St", "city": "Austin", "state": "TX", "code": "78701",
                        "country": "USA",
                    },
                ],
            },
        ],
    }, JANE | {"phone": "5125550100", "country": "US"}, ignored={"id", "stage", "addresses.type"}),
    "Zoho contact": Payload({
        "data": [
            {
                "First_Name": "Jane", "Last_Name": "Doe", "Full_Name": "Jane Doe", "Email": "jane@example.com",
                "Account_Name": {"name": "Acme", "id": "4150868000000452001"}, "Mailing_Street": "12 Main St",
                "Mailing_City": "Austin", "Mailing_State": "TX", "Mailing_Zip": "78701",
                "Mailing_Country": "United States", "Other_Zip": "75201", "Date_of_Birth": "1980-02-29",
                "Tag": [{"name": "vip"}],
            },
        ],
    }, JANE | {"company": "Acme", "country": "US", "dob": "1980-02-29"}, ignored={
        "Account_Name.id", "Other_Zip", "Tag",
    }),
    "Shopify customer": Payload({
        "id": 706405506930370084, "email": "jane@example.com", "first_name": "Jane", "last_name": "Doe",
        "verified_email": True,
        "default_address": {
            "address1": "12 Main St", "address2": None, "city": "Austin", "province": "Texas", "province_code": "TX",
            "zip": "78701", "country_code": "US", "default": True,
        },
    }, JANE | {"country": "US"}, ignored={"id", "verified_email", "default_address.default"}),
    "WooCommerce order": Payload({
        "number": "723",
        "billing": {
            "first_name": "Jane", "last_name": "Doe", "company": "", "address_1": "12 Main St", "address_2": "",
            "city": "Austin", "state": "TX", "postcode": "78701", "country": "US", "email": "jane@example.com",
            "phone": "(555) 555-5555",
        },
    }, JANE | {"country": "US", "phone": "(555) 555-5555"}, ignored={"number"}),
    "our own names": Payload({
        **JANE, "custom10": "ten", "custom_9": "nine", "anniversary": "05/04/2001", "source": "crm",
    }, JANE | {"custom10": "ten", "custom9": "nine", "anniversary": "05/04/2001"}),
}
# fmt: on
