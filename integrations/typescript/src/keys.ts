// SPDX-License-Identifier: MIT
// From the ids of a step to the key of a call.
//
// Version 1, the same in every language (integrations/vectors.json holds examples):
//
//   "hx1-" + lowercase hex of SHA-256 over the fields "dev.hapax/step-key/1", field 1, field 2, ...
//   each written as its length in bytes of UTF-8 (8 bytes, big endian) and those bytes.
//
// The prefixes make the input unambiguous: ("ab", "c") and ("a", "bc") are different keys. Nothing is
// normalised or trimmed. A change of this definition is a new prefix, since a key that changes
// between a call and its repeat is a second effect.
import { createHash } from "node:crypto";

const DOMAIN = "dev.hapax/step-key/1";
const PREFIX = "hx1-";
const LONE_SURROGATE = /[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/;

/**
 * The key of a call of a step that those ids name, from the widest to the narrowest. Give every id
 * that tells this call from all others, and only ids that stay the same when the step is run again:
 * `stepKey("temporal", namespace, workflowId, activityId, "0")`.
 */
export function stepKey(...fields: string[]): string {
  if (fields.length === 0) throw new TypeError("a key needs at least one id");
  const hash = createHash("sha256");
  for (const field of [DOMAIN, ...fields]) {
    if (typeof field !== "string") throw new TypeError(`an id is a string, not ${typeof field}`);
    // UTF-8 would put one and the same replacement character in its place.
    if (LONE_SURROGATE.test(field)) throw new TypeError("an id holds a lone surrogate");
    const length = Buffer.byteLength(field, "utf8").toString(16).padStart(16, "0");
    hash.update(length, "hex").update(field, "utf8");
  }
  return PREFIX + hash.digest("hex");
}
