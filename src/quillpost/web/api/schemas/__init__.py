"""The answers as the API description shows them. A test holds them against what is really sent."""
