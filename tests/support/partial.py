"""Records of which a test gives only what the tested code reads."""


class Partial(dict):
    """Plain values that are read as a record's fields; a field that is not given is None."""

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return self.get(name)

    def to_dict(self):
        """Return the plain values."""
        return dict(self)


def partial(content):
    """Return the same, read as records are."""
    if isinstance(content, dict):
        return Partial((key, partial(value)) for key, value in content.items())
    return [partial(one) for one in content] if isinstance(content, list) else content
