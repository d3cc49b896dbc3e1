"""Short programs of two, in every order, judged by what memory says."""
