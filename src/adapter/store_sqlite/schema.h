/* SPDX-License-Identifier: MIT */
/*
 * The tables of a ledger and how older ones are brought up to date. docs/ledger-format.md describes
 * each column.
 */
#ifndef HX_ADAPTER_STORE_SQLITE_SCHEMA_H
#define HX_ADAPTER_STORE_SQLITE_SCHEMA_H

/* PRAGMA application_id: "HAPX". PRAGMA user_version: the version. */
enum { HX_SCHEMA_APPLICATION = 0x48415058, HX_SCHEMA_VERSION = 4 };

/* The statements that lead from version `from` to `from + 1`; 0 is an empty file. */
const char *hx_schema_step(int from);

/* Kinds of history lines. */
enum hx_history_kind {
    HX_HISTORY_INSERT = 1,
    HX_HISTORY_UPDATE,
    HX_HISTORY_MARK,
    HX_HISTORY_NOTE,
    HX_HISTORY_SPOOL,    /* an update that came out of a spool */
    HX_HISTORY_EVIDENCE, /* a spooled outcome that came too late to be applied */
    HX_HISTORY_RETENTION
};

/* Where bytes of a row stand. */
enum hx_bytes_place {
    HX_BYTES_NONE = 0,
    HX_BYTES_ROW = 1,     /* in the row itself */
    HX_BYTES_PAYLOAD = 2, /* in the payload table */
    HX_BYTES_BLOB = 3,    /* in a file */
    HX_BYTES_GONE = 4
};

/* Above this, bytes leave the row, which each small change of it writes whole. */
enum { HX_ROW_BYTES_MAX = 2048 };
/* payload.number = row * HX_PAYLOAD_PARTS + part */
enum { HX_PAYLOAD_ARGUMENTS, HX_PAYLOAD_OUTCOME, HX_PAYLOAD_EVIDENCE, HX_PAYLOAD_PARTS = 4 };

#endif
