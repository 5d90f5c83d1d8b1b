# SPDX-License-Identifier: MIT
"""From the ids of a step to the key of a call.

Version 1, the same in every language (`integrations/vectors.json` holds examples):

    "hx1-" + lowercase hex of SHA-256 over the fields "dev.hapax/step-key/1", field 1, field 2, ...
    each written as its length in bytes of UTF-8 (8 bytes, big endian) and those bytes.

The prefixes make the input unambiguous: ("ab", "c") and ("a", "bc") are different keys. Nothing is
normalised or trimmed. A change of this definition is a new prefix, since a key that changes between
a call and its repeat is a second effect.
"""

import hashlib

DOMAIN = "dev.hapax/step-key/1"
PREFIX = "hx1-"


def step_key(*fields: str) -> str:
    """The key of a call of a step that those ids name, from the widest to the narrowest.

    Give every id that tells this call from all others, and only ids that stay the same when the
    step is run again: step_key("temporal", namespace, workflow_id, activity_id, "0").
    """
    if not fields:
        raise ValueError("a key needs at least one id")
    digest = hashlib.sha256()
    for field in (DOMAIN, *fields):
        if not isinstance(field, str):
            raise TypeError(f"the ids of a key are strings, not {type(field).__name__}")
        encoded = field.encode("utf-8")  # a lone surrogate is an error here, as it should be
        digest.update(len(encoded).to_bytes(8, "big"))
        digest.update(encoded)
    return PREFIX + digest.hexdigest()
