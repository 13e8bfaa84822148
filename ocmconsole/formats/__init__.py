"""How Django writes times that no template formats: those of Django admin, as the console writes them."""
