"""Small tools that know nothing of mail: errors, money, time, paging, ids, secrets."""
