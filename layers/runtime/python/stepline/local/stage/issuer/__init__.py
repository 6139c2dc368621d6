"""A small OpenID Connect issuer on loopback: discovery, key set, tokens, and a sign-in for the chat page.

It takes the place of a company's identity provider; the authorizer checks its tokens in the same way. Read
access to `.stepline/` is enough to be any user here, and none elsewhere: no deployed stage trusts this
issuer.
"""
