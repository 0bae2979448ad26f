"""Moving a session to another store: the document it is exported as, and what is restored of one."""
