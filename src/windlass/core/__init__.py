"""The rules. Pure functions from values to values: no await, no IO, no clock, no randomness of their own.

Drivers apply what these functions return, under a guard; they decide nothing.
"""
