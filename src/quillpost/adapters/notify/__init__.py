"""Those who carry messages to people: mail servers, text message services, and a console to look at."""
