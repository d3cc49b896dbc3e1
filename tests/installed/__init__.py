"""What is published: built, installed into empty environments, and used there."""
