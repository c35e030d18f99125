"""Countries by code and by name."""

import unicodedata

_POSTAL_NAMES = """
AD ANDORRA
AE UNITED ARAB EMIRATES
AF AFGHANISTAN
AG ANTIGUA AND BARBUDA
AI ANGUILLA
AL ALBANIA
AM ARMENIA
AO ANGOLA
AQ ANTARCTICA
AR ARGENTINA
AS AMERICAN SAMOA
AT AUSTRIA
AU AUSTRALIA
AW ARUBA
AX ALAND ISLANDS
AZ AZERBAIJAN
BA BOSNIA AND HERZEGOVINA
BB BARBADOS
BD BANGLADESH
BE BELGIUM
BF BURKINA FASO
BG BULGARIA
BH BAHRAIN
BI BURUNDI
BJ BENIN
BL SAINT BARTHELEMY
BM BERMUDA
BN BRUNEI
BO BOLIVIA
BQ CARIBBEAN NL
BR BRAZIL
BS BAHAMAS
BT BHUTAN
BV BOUVET ISLAND
BW BOTSWANA
BY BELARUS
BZ BELIZE
CA CANADA
CC COCOS ISLANDS
CD DEMOCRATIC REPUBLIC OF THE CONGO
CF CENTRAL AFRICAN REPUBLIC
CG REPUBLIC OF THE CONGO
CH SWITZERLAND
CI COTE D'IVOIRE
CK COOK ISLANDS
CL CHILE
CM CAMEROON
CN CHINA
CO COLOMBIA
CR COSTA RICA
CU CUBA
CV CAPE VERDE
CW CURACAO
CX CHRISTMAS ISLAND
CY CYPRUS
CZ CZECH REPUBLIC
DE GERMANY
DJ DJIBOUTI
DK DENMARK
DM DOMINICA
DO DOMINICAN REPUBLIC
DZ ALGERIA
EC ECUADOR
EE ESTONIA
EG EGYPT
EH WESTERN SAHARA
ER ERITREA
ES SPAIN
ET ETHIOPIA
FI FINLAND
FJ FIJI
FK FALKLAND ISLANDS
FM MICRONESIA
FO FAROE ISLANDS
FR FRANCE
GA GABON
GB UNITED KINGDOM
GD GRENADA
GE GEORGIA
GF FRENCH GUIANA
GG GUERNSEY
GH GHANA
GI GIBRALTAR
GL GREENLAND
GM GAMBIA
GN GUINEA
GP GUADELOUPE
GQ EQUATORIAL GUINEA
GR GREECE
GS SOUTH GEORGIA AND THE SOUTH SANDWICH ISLANDS
GT GUATEMALA
GU GUAM
GW GUINEA-BISSAU
GY GUYANA
HK HONG KONG
HM HEARD ISLAND AND MCDONALD ISLANDS
HN HONDURAS
HR CROATIA
HT HAITI
HU HUNGARY
ID INDONESIA
IE IRELAND
IL ISRAEL
IM ISLE OF MAN
IN INDIA
IO BRITISH INDIAN OCEAN TERRITORY
IQ IRAQ
IR IRAN
IS ICELAND
IT ITALY
JE JERSEY
JM JAMAICA
JO JORDAN
JP JAPAN
KE KENYA
KG KYRGYZSTAN
KH CAMBODIA
KI KIRIBATI
KM COMOROS
KN SAINT KITTS AND NEVIS
KP NORTH KOREA
KR SOUTH KOREA
KW KUWAIT
KY CAYMAN ISLANDS
KZ KAZAKHSTAN
LA LAOS
LB LEBANON
LC SAINT LUCIA
LI LIECHTENSTEIN
LK SRI LANKA
LR LIBERIA
LS LESOTHO
LT LITHUANIA
LU LUXEMBOURG
LV LATVIA
LY LIBYA
MA MOROCCO
MC MONACO
MD MOLDOVA
ME MONTENEGRO
MF SAINT MARTIN
MG MADAGASCAR
MH MARSHALL ISLANDS
MK NORTH MACEDONIA
ML MALI
MM BURMA
MN MONGOLIA
MO MACAU
MP NORTHERN MARIANA ISLANDS
MQ MARTINIQUE
MR MAURITANIA
MS MONTSERRAT
MT MALTA
MU MAURITIUS
MV MALDIVES
MW MALAWI
MX MEXICO
MY MALAYSIA
MZ MOZAMBIQUE
NA NAMIBIA
NC NEW CALEDONIA
NE NIGER
NF NORFOLK ISLAND
NG NIGERIA
NI NICARAGUA
NL NETHERLANDS
NO NORWAY
NP NEPAL
NR NAURU
NU NIUE
NZ NEW ZEALAND
OM OMAN
PA PANAMA
PE PERU
PF FRENCH POLYNESIA
PG PAPUA NEW GUINEA
PH PHILIPPINES
PK PAKISTAN
PL POLAND
PM SAINT PIERRE AND MIQUELON
PN PITCAIRN
PR PUERTO RICO
PS PALESTINE
PT PORTUGAL
PW PALAU
PY PARAGUAY
QA QATAR
RE REUNION
RO ROMANIA
RS SERBIA
RU RUSSIA
RW RWANDA
SA SAUDI ARABIA
SB SOLOMON ISLANDS
SC SEYCHELLES
SD SUDAN
SE SWEDEN
SG SINGAPORE
SH SAINT HELENA
SI SLOVENIA
SJ SVALBARD AND JAN MAYEN
SK SLOVAKIA
SL SIERRA LEONE
SM SAN MARINO
SN SENEGAL
SO SOMALIA
SR SURINAME
SS SOUTH SUDAN
ST SAO TOME AND PRINCIPE
SV EL SALVADOR
SX SINT MAARTEN
SY SYRIA
SZ ESWATINI
TC TURKS AND CAICOS ISLANDS
TD CHAD
TF FRENCH S. TERR.
TG TOGO
TH THAILAND
TJ TAJIKISTAN
TK TOKELAU
TL TIMOR-LESTE
TM TURKMENISTAN
TN TUNISIA
TO TONGA
TR TURKEY
TT TRINIDAD AND TOBAGO
TV TUVALU
TW TAIWAN
TZ TANZANIA
UA UKRAINE
UG UGANDA
UM US MINOR OUTLYING ISLANDS
US UNITED STATES
UY URUGUAY
UZ UZBEKISTAN
VA VATICAN CITY
VC SAINT VINCENT AND THE GRENADINES
VE VENEZUELA
VG BRITISH VIRGIN ISLANDS
VI US VIRGIN ISLANDS
VN VIETNAM
VU VANUATU
WF WALLIS AND FUTUNA
WS SAMOA
YE YEMEN
YT MAYOTTE
ZA SOUTH AFRICA
ZM ZAMBIA
ZW ZIMBABWE
"""
POSTAL_COUNTRY_NAMES: dict[str, str] = dict(line.split(" ", 1) for line in _POSTAL_NAMES.split("\n") if line)
"""A code alone would be read as a state: DE as Delaware, CA as California."""

COUNTRY_CODES = frozenset(POSTAL_COUNTRY_NAMES)
"""The two letters of every country (ISO 3166-1)."""


_OTHER_NAMES = """
AD Andorra; AE United Arab Emirates, UAE; AF Afghanistan; AG Antigua and Barbuda; AI Anguilla; AL Albania;
AM Armenia; AO Angola; AR Argentina; AS American Samoa; AT Austria; AU Australia, AUS; AW Aruba;
AX Aland Islands; AZ Azerbaijan; BA Bosnia and Herzegovina; BB Barbados; BD Bangladesh; BE Belgium;
BF Burkina Faso; BG Bulgaria; BH Bahrain; BI Burundi; BJ Benin; BM Bermuda; BN Brunei, Brunei Darussalam;
BO Bolivia; BR Brazil, BRA; BS Bahamas, The Bahamas; BT Bhutan; BW Botswana; BY Belarus; BZ Belize;
CA Canada, CAN; CD Democratic Republic of the Congo; CF Central African Republic; CG Congo;
CH Switzerland, CHE; CI Ivory Coast, Cote d'Ivoire; CL Chile; CM Cameroon; CN China, CHN; CO Colombia;
CR Costa Rica; CU Cuba; CV Cape Verde, Cabo Verde; CW Curacao; CY Cyprus; CZ Czechia, Czech Republic;
DE Germany, DEU, Deutschland; DJ Djibouti; DK Denmark, DNK; DM Dominica; DO Dominican Republic; DZ Algeria;
EC Ecuador; EE Estonia; EG Egypt; ER Eritrea; ES Spain, ESP; ET Ethiopia; FI Finland, FIN; FJ Fiji;
FK Falkland Islands; FM Micronesia; FO Faroe Islands; FR France, FRA; GA Gabon;
GB United Kingdom, UK, GBR, Great Britain, England, Scotland, Wales, Northern Ireland; GD Grenada;
GE Georgia; GF French Guiana; GG Guernsey; GH Ghana; GI Gibraltar; GL Greenland; GM Gambia; GN Guinea;
GP Guadeloupe; GQ Equatorial Guinea; GR Greece; GT Guatemala; GU Guam; GW Guinea-Bissau; GY Guyana;
HK Hong Kong; HN Honduras; HR Croatia; HT Haiti; HU Hungary; ID Indonesia; IE Ireland, IRL; IL Israel;
IM Isle of Man; IN India, IND; IQ Iraq; IR Iran; IS Iceland; IT Italy, ITA; JE Jersey; JM Jamaica;
JO Jordan; JP Japan, JPN; KE Kenya; KG Kyrgyzstan; KH Cambodia; KI Kiribati; KM Comoros;
KN Saint Kitts and Nevis; KP North Korea; KR South Korea, Korea, Republic of Korea; KW Kuwait;
KY Cayman Islands; KZ Kazakhstan; LA Laos; LB Lebanon; LC Saint Lucia; LI Liechtenstein; LK Sri Lanka;
LR Liberia; LS Lesotho; LT Lithuania; LU Luxembourg; LV Latvia; LY Libya; MA Morocco; MC Monaco; MD Moldova;
ME Montenegro; MG Madagascar; MH Marshall Islands; MK North Macedonia, Macedonia; ML Mali;
MM Myanmar, Burma; MN Mongolia; MO Macao, Macau; MP Northern Mariana Islands; MQ Martinique; MR Mauritania;
MS Montserrat; MT Malta; MU Mauritius; MV Maldives; MW Malawi; MX Mexico, MEX; MY Malaysia; MZ Mozambique;
NA Namibia; NC New Caledonia; NE Niger; NG Nigeria; NI Nicaragua;
NL Netherlands, The Netherlands, Holland, NLD; NO Norway, NOR; NP Nepal; NR Nauru;
NZ New Zealand, NZL; OM Oman; PA Panama; PE Peru; PF French Polynesia; PG Papua New Guinea; PH Philippines;
PK Pakistan; PL Poland, POL; PR Puerto Rico; PS Palestine; PT Portugal, PRT; PW Palau; PY Paraguay; QA Qatar;
RE Reunion; RO Romania; RS Serbia; RU Russia, Russian Federation; RW Rwanda; SA Saudi Arabia;
SB Solomon Islands; SC Seychelles; SD Sudan; SE Sweden, SWE; SG Singapore; SI Slovenia; SK Slovakia;
SL Sierra Leone; SM San Marino; SN Senegal; SO Somalia; SR Suriname; SS South Sudan; SV El Salvador;
SX Sint Maarten; SY Syria; SZ Eswatini, Swaziland; TC Turks and Caicos Islands; TD Chad; TG Togo;
TH Thailand; TJ Tajikistan; TL Timor-Leste, East Timor; TM Turkmenistan; TN Tunisia; TO Tonga;
TR Turkey, Turkiye; TT Trinidad and Tobago; TV Tuvalu; TW Taiwan; TZ Tanzania; UA Ukraine; UG Uganda;
US United States, United States of America, USA, America; UY Uruguay; UZ Uzbekistan;
VA Vatican City, Holy See; VC Saint Vincent and the Grenadines; VE Venezuela; VG British Virgin Islands;
VI US Virgin Islands, Virgin Islands; VN Vietnam, Viet Nam; VU Vanuatu; WS Samoa; YE Yemen;
ZA South Africa; ZM Zambia; ZW Zimbabwe
"""


def _name_key(text: str) -> str:
    """Letters alone, without their marks, in capitals; an ampersand is the word that it stands for."""
    decomposed = unicodedata.normalize("NFD", text.replace("&", " and "))
    return "".join(char for char in decomposed.upper() if char.isalpha())


def _build_codes_by_name() -> dict[str, str]:
    codes: dict[str, str] = {}
    for entry in _OTHER_NAMES.split(";"):
        code, _, names = entry.strip().partition(" ")
        codes |= {_name_key(name): code for name in names.split(",")}
    return codes


CODES_BY_NAME = _build_codes_by_name()
"""Two letters by a country's name in letters alone."""


_DISPLAY_NAMES = {
    code: names.split(",")[0] for code, _, names in (entry.strip().partition(" ") for entry in _OTHER_NAMES.split(";"))
}


def country_name(code: str) -> str:
    """The country's name as one writes it, or the letters where we know no name."""
    return _DISPLAY_NAMES.get(code, code)


def country_code_by_name(text: str) -> str:
    """The two letters where the name is one that we know, else the text as it was."""
    return CODES_BY_NAME.get(_name_key(text), text)
