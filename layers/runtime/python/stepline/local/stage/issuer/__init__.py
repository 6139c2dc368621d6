"""A small OpenID Connect issuer on loopback: discovery, key set, tokens, and a sign-in for the chat page.

It replaces a company's identity provider; the authorizer checks its tokens in the same way. Read access to `.stepline/`
is enough to act as any user here, and as none elsewhere: no deployed stage trusts this issuer.
"""
