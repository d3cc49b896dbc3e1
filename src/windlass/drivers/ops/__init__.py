"""Operations that every SQL driver does alike, written once over a dialect: values → statements.

What decides the speed of a worker (enqueue, claim, extend, settle) is written by each driver in its own way."""
