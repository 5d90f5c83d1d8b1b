/* SPDX-License-Identifier: MIT */
/*
 * A version that was published never changes: a new one adds a step here, and a fixture of the old
 * one in tests/fixtures/ledger.
 */
#include "adapter/store_sqlite/schema.h"

#include <stddef.h>

/* `op` only grows at its end, so a claim dirties one page of it. Its other pages are those of the
 * three indexes: `op_identity` is hit at random, by 16 bytes instead of a wide key; `op_id` grows
 * at its end, ids being ordered by time; `op_hot` holds only rows that may still be met by an equal
 * call. */
static const char version_1[] =
    "CREATE TABLE ledger("
    "  id INTEGER PRIMARY KEY CHECK (id = 1),"
    "  instance BLOB NOT NULL,"
    "  created INTEGER NOT NULL,"
    "  commits INTEGER NOT NULL DEFAULT 0,"
    "  epoch INTEGER NOT NULL DEFAULT 1,"
    "  low_water INTEGER NOT NULL DEFAULT 0,"
    "  age_ms INTEGER NOT NULL DEFAULT 0,"
    "  age_wall INTEGER NOT NULL DEFAULT 0,"
    "  age_mono INTEGER NOT NULL DEFAULT 0,"
    "  age_boot INTEGER NOT NULL DEFAULT 0,"
    "  restored_from INTEGER NOT NULL DEFAULT 0,"
    "  restored_to INTEGER NOT NULL DEFAULT 0,"
    "  restored_until INTEGER NOT NULL DEFAULT 0,"
    "  io_error TEXT,"
    "  io_error_at INTEGER NOT NULL DEFAULT 0);"
    "CREATE TABLE boot(number INTEGER PRIMARY KEY, boot BLOB NOT NULL UNIQUE);"
    "CREATE TABLE contract(number INTEGER PRIMARY KEY, text TEXT NOT NULL UNIQUE);"
    "CREATE TABLE op("
    "  row INTEGER PRIMARY KEY,"
    "  id BLOB NOT NULL, identity BLOB NOT NULL, identity_rest BLOB NOT NULL,"
    "  generation INTEGER NOT NULL, twin BLOB NOT NULL, twin_rest BLOB NOT NULL,"
    "  fingerprint BLOB, effect_key BLOB,"
    "  tenant TEXT, principal TEXT, server TEXT, tool TEXT, key BLOB, key_source INTEGER NOT NULL,"
    "  first_sent INTEGER NOT NULL, created INTEGER NOT NULL, created_mono INTEGER NOT NULL,"
    "  created_boot INTEGER NOT NULL,"
    "  state INTEGER NOT NULL, reason INTEGER NOT NULL, fence INTEGER NOT NULL,"
    "  owner BLOB, owner_boot INTEGER NOT NULL,"
    "  attempt INTEGER NOT NULL, attempt_state INTEGER NOT NULL, attempt_marked INTEGER NOT NULL,"
    "  claimed INTEGER NOT NULL, claimed_mono INTEGER NOT NULL, claimed_boot INTEGER NOT NULL,"
    "  marked INTEGER NOT NULL, marked_mono INTEGER NOT NULL, marked_boot INTEGER NOT NULL,"
    "  transport TEXT,"
    "  earlier_open INTEGER NOT NULL, earlier_asked INTEGER NOT NULL,"
    "  earlier_confirmed INTEGER NOT NULL, earlier_refused INTEGER NOT NULL,"
    "  sends INTEGER NOT NULL,"
    "  first_mark INTEGER NOT NULL, first_mark_mono INTEGER NOT NULL,"
    "  first_mark_boot INTEGER NOT NULL,"
    "  not_before INTEGER NOT NULL, not_before_mono INTEGER NOT NULL,"
    "  not_before_boot INTEGER NOT NULL,"
    "  settled INTEGER NOT NULL, settled_mono INTEGER NOT NULL, settled_boot INTEGER NOT NULL,"
    "  updated INTEGER NOT NULL, updated_mono INTEGER NOT NULL, updated_boot INTEGER NOT NULL,"
    "  outcome_kind INTEGER NOT NULL, outcome_is_error INTEGER NOT NULL,"
    "  outcome_is_reconstructed INTEGER NOT NULL, outcome_size INTEGER NOT NULL,"
    "  outcome_digest BLOB,"
    "  successor BLOB, predecessor BLOB,"
    "  is_tombstone INTEGER NOT NULL, is_approved INTEGER NOT NULL, is_disputed INTEGER NOT NULL,"
    "  is_superseded INTEGER NOT NULL,"
    "  is_cancel_requested INTEGER NOT NULL, is_told_pending INTEGER NOT NULL,"
    "  is_acknowledged INTEGER NOT NULL, needs_human INTEGER NOT NULL,"
    "  repeats INTEGER NOT NULL, sent_count INTEGER NOT NULL, lost_count INTEGER NOT NULL,"
    "  adoptions INTEGER NOT NULL, holder BLOB,"
    "  hot INTEGER NOT NULL, claim_epoch INTEGER NOT NULL, contract INTEGER NOT NULL,"
    "  used_age INTEGER NOT NULL, expired_from INTEGER NOT NULL DEFAULT 0,"
    "  arguments_place INTEGER NOT NULL, arguments BLOB,"
    "  outcome_place INTEGER NOT NULL, outcome_blob INTEGER NOT NULL, outcome BLOB);"
    "CREATE UNIQUE INDEX op_identity ON op(identity, generation);"
    "CREATE UNIQUE INDEX op_id ON op(id);"
    "CREATE INDEX op_hot ON op(twin) WHERE hot = 1;"
    "CREATE TABLE payload(number INTEGER PRIMARY KEY, bytes BLOB NOT NULL);"
    "CREATE TABLE history("
    "  op INTEGER NOT NULL, seq INTEGER NOT NULL, at INTEGER NOT NULL, who BLOB,"
    "  kind INTEGER NOT NULL, from_state INTEGER NOT NULL, to_state INTEGER NOT NULL,"
    "  reason INTEGER NOT NULL, fence INTEGER NOT NULL, attempt INTEGER NOT NULL,"
    "  attempt_state INTEGER NOT NULL, earlier INTEGER NOT NULL, text TEXT,"
    "  PRIMARY KEY(op, seq)) WITHOUT ROWID;";

/* What must not outlive a row goes with it by triggers, so that it does so also when a process of
 * version 1 that had the ledger open goes on beside us and removes the row. None of them is in the
 * way of a claim or an outcome: no such statement deletes a row or sets `arguments_place`.
 *
 * A session's number is never used again, so the streams of one that ended, which are no longer
 * found, may be taken away bit by bit. */
static const char version_2[] =
    "CREATE TABLE session("
    "  number INTEGER PRIMARY KEY AUTOINCREMENT, key BLOB NOT NULL UNIQUE,"
    "  tenant TEXT, principal TEXT, endpoint TEXT, revision TEXT,"
    "  created INTEGER NOT NULL, last_seen INTEGER NOT NULL, used_age INTEGER NOT NULL);"
    "CREATE TABLE session_message(session INTEGER PRIMARY KEY, initialize BLOB NOT NULL);"
    "CREATE TABLE stream("
    "  session INTEGER NOT NULL, name BLOB NOT NULL, op INTEGER NOT NULL, request_id BLOB,"
    "  PRIMARY KEY(session, name)) WITHOUT ROWID;"
    "CREATE INDEX stream_op ON stream(op);"
    "CREATE TABLE resume("
    "  op INTEGER PRIMARY KEY, attempt INTEGER NOT NULL, text BLOB NOT NULL);"
    "CREATE TABLE proof(owner BLOB PRIMARY KEY, number INTEGER NOT NULL) WITHOUT ROWID;"
    "CREATE TRIGGER session_gone AFTER DELETE ON session BEGIN"
    "  DELETE FROM session_message WHERE session = old.number; END;"
    "CREATE TRIGGER op_gone AFTER DELETE ON op BEGIN"
    "  DELETE FROM stream WHERE op = old.row; DELETE FROM resume WHERE op = old.row; END;"
    "CREATE TRIGGER op_payload_gone AFTER UPDATE OF arguments_place ON op BEGIN"
    "  DELETE FROM stream WHERE op = old.row; DELETE FROM resume WHERE op = old.row; END;";

/* The outbox. A row holds all that its event says, since the operation's row may go before it is
 * delivered, and names the operation by its id, since a row's number may be given again. An event's
 * number is never given twice: it tells the order. */
static const char version_3[] =
    "ALTER TABLE ledger ADD COLUMN outbox_since INTEGER NOT NULL DEFAULT 0;"
    "ALTER TABLE ledger ADD COLUMN outbox_publisher BLOB;"
    "CREATE TABLE outbox("
    "  number INTEGER PRIMARY KEY AUTOINCREMENT, id BLOB NOT NULL UNIQUE, op BLOB NOT NULL,"
    "  seq INTEGER NOT NULL, kind INTEGER NOT NULL, at INTEGER NOT NULL,"
    "  server TEXT, tool TEXT, created INTEGER NOT NULL, state INTEGER NOT NULL,"
    "  reason INTEGER NOT NULL, attempt INTEGER NOT NULL, settled INTEGER NOT NULL,"
    "  place INTEGER NOT NULL DEFAULT 0, tries INTEGER NOT NULL DEFAULT 0,"
    "  not_before INTEGER NOT NULL, tried INTEGER NOT NULL DEFAULT 0, error TEXT,"
    "  used_age INTEGER NOT NULL);"
    "CREATE INDEX outbox_open ON outbox(op, number) WHERE place < 2;"
    "CREATE INDEX outbox_due ON outbox(not_before, number, tried) WHERE place = 0;";

/* How old the ledger was when a copy of it was taken into use again. Where nobody noted that, the
 * caution begins again: how long ago it was, only the wall clock would tell. */
static const char version_4[] =
    "ALTER TABLE ledger ADD COLUMN restored_age INTEGER NOT NULL DEFAULT 0;"
    "UPDATE ledger SET restored_age = age_ms;";

static const char *const steps[HX_SCHEMA_VERSION] = {version_1, version_2, version_3, version_4};

const char *hx_schema_step(int from)
{
    return from >= 0 && from < HX_SCHEMA_VERSION ? steps[from] : NULL;
}
