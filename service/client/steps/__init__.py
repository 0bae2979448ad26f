"""What each method calls and how it reads the answers, one source for both kinds of clients. No I/O."""
