"""An order to a million people: taken, made items, composed, tracked; by real processes on two cores."""
