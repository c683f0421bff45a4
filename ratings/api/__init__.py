"""The read API: what pages and files show, for programs, page by page. It writes nothing but when a token was last used."""
