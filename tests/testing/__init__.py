"""Tests of what users get for their own tests."""
