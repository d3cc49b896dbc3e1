"""The rules, tried one by one: no driver, no clock, no waiting."""
