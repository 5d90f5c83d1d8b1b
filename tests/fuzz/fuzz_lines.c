/* SPDX-License-Identifier: MIT */
/*
 * Any split of the bytes gives the same messages: lines, oversize items with their ids and
 * digests, and the JSON-RPC verdict on each line.
 */
#include "tests/fuzz/fuzz.h"
#include "wire/jsonrpc.h"
#include "wire/lines.h"
#include "wire/mcp.h"

enum { LINE_MAX_TESTED = 64 };

static void log_message(struct hx_hasher *hasher, struct hx_span text)
{
    struct hx_json_tape tape;
    struct hx_arena arena;
    struct hx_rpc_msg msg;
    hx_json_tape_init(&tape);
    hx_arena_init(&arena, 1 << 20);
    hx_assert(hx_rpc_read(&tape, text, &fuzz_limits, &arena, &msg) == 0);
    hx_hasher_add(hasher, hx_span((const char *)&msg.kind, sizeof(msg.kind)));
    hx_hasher_add(hasher, hx_span((const char *)&msg.fault, sizeof(msg.fault)));
    hx_hasher_add_field(hasher, msg.id.raw);
    hx_hasher_add_field(hasher, msg.method);
    hx_hasher_add_field(hasher, msg.params);
    hx_hasher_add_field(hasher, msg.result);
    hx_hasher_add_field(hasher, msg.error);
    if (msg.kind == HX_RPC_REQUEST) {
        struct hx_mcp_call call;
        hx_assert(hx_mcp_call_read(&tape, &msg, &arena, &call) == 0);
        hx_hasher_add_field(hasher, call.arguments);
    }
    hx_arena_fini(&arena);
    hx_json_tape_fini(&tape);
}

static void log_line(struct hx_hasher *hasher, const struct hx_line *line)
{
    uint8_t kind = (uint8_t)line->kind;
    hx_assert(line->kind == HX_LINE_OVERSIZE || line->text.len <= LINE_MAX_TESTED);
    hx_assert((line->kind == HX_LINE_OVERSIZE) == (line->size > LINE_MAX_TESTED));
    hx_hasher_add(hasher, hx_span((const char *)&kind, 1));
    hx_hasher_add(hasher, hx_span((const char *)&line->size, sizeof(line->size)));
    hx_hasher_add(hasher, hx_span((const char *)&line->is_terminated, 1));
    hx_hasher_add_field(hasher, line->text);
    if (line->kind == HX_LINE_OVERSIZE) {
        struct hx_rpc_id id = hx_rpc_id_parse(line->text);
        hx_hasher_add(hasher, hx_span((const char *)line->digest.bytes, HX_DIGEST_SIZE));
        hx_hasher_add(hasher, hx_span((const char *)&id.type, sizeof(id.type)));
    } else {
        log_message(hasher, line->text);
    }
}

/* Feeds the bytes in pieces; `dice` NULL feeds all at once. */
static struct hx_digest run(struct hx_span bytes, struct fuzz_dice *dice, uint32_t piece_max,
                            struct hx_hasher *log, struct hx_hasher *digests)
{
    struct hx_lines lines;
    struct hx_line line;
    hx_lines_init(&lines, LINE_MAX_TESTED, digests);
    hx_hasher_begin(log);
    for (size_t at = 0; at < bytes.len;) {
        size_t len = bytes.len - at;
        if (dice != NULL) {
            size_t piece = 1 + fuzz_roll(dice, piece_max);
            len = piece < len ? piece : len;
        }
        struct hx_span input = hx_span(bytes.ptr + at, len);
        while (hx_lines_next(&lines, &input, &line))
            log_line(log, &line);
        hx_assert(input.len == 0);
        at += len;
    }
    if (hx_lines_end(&lines, &line))
        log_line(log, &line);
    hx_lines_fini(&lines);
    return hx_hasher_end(log);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct hx_span bytes = hx_span((const char *)data, size);
    struct fuzz_dice dice = fuzz_dice(data, size);
    struct hx_hasher *log = hx_hasher_new();
    struct hx_hasher *digests = hx_hasher_new();
    struct hx_digest whole = run(bytes, NULL, 0, log, digests);
    static const uint32_t pieces_max[] = {1, 3, 100};
    for (size_t i = 0; i < 3; i++) {
        struct hx_digest cut = run(bytes, &dice, pieces_max[i], log, digests);
        hx_assert(hx_digest_eq(&whole, &cut));
    }
    hx_hasher_free(digests);
    hx_hasher_free(log);
    return 0;
}
