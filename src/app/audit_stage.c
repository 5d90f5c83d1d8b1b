/* SPDX-License-Identifier: MIT */
#include "app/audit_stage.h"

#include <inttypes.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "adapter/clock_os/clock_os.h"
#include "app/audit_count.h"
#include "app/audit_options.h"
#include "app/mcp_client_url.h"
#include "base/fault.h"
#include "base/id.h"
#include "wire/mcp.h"
#include "json/text.h"

enum {
    CONNECT_MS = 30000,
    COUNT_MS = 30000,
    MESSAGE_MAX = 4 << 20,
    LOOK_PAUSE_MS = 10,
    SETTLE_ROUNDS = 5
};

bool hx_audit_fail(struct hx_audit_stage *stage, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(stage->seen->problem, sizeof(stage->seen->problem), format, args);
    va_end(args);
    return false;
}

/* ---- effects ---- */

bool hx_audit_look(struct hx_audit_stage *stage)
{
    struct hx_audit_seen *seen = stage->seen;
    int64_t number;
    seen->is_counted = false;
    if (!hx_audit_count(stage->plan->count, stage->name, COUNT_MS, &number, seen->problem,
                        sizeof(seen->problem)))
        return false;
    if (number < stage->before)
        return hx_audit_fail(stage, "the counting command went down from %" PRId64 " to %" PRId64,
                             stage->before, number);
    seen->effects = number - stage->before;
    seen->is_counted = true;
    return true;
}

bool hx_audit_look_for(struct hx_audit_stage *stage, int64_t count)
{
    struct hx_mono deadline = hx_mono_after(hx_mcp_now(), 3 * stage->plan->facts.answer_ms + 5000);
    while (hx_audit_look(stage)) {
        if (stage->seen->effects >= count || hx_mono_reached(hx_mcp_now(), deadline))
            return true;
        poll(NULL, 0, LOOK_PAUSE_MS); /* the number is asked for again */
    }
    return false;
}

bool hx_audit_settle(struct hx_audit_stage *stage)
{
    int64_t least_ms = 2 * stage->plan->facts.answer_ms;
    int64_t settle_ms = stage->plan->settle_ms > least_ms ? stage->plan->settle_ms : least_ms;
    if (!hx_audit_look(stage))
        return false;
    for (int round = 0; round < SETTLE_ROUNDS; round++) {
        int64_t before = stage->seen->effects;
        poll(NULL, 0, (int)settle_ms); /* nothing tells when nothing more will come */
        if (!hx_audit_look(stage))
            return false;
        if (stage->seen->effects == before)
            return true;
    }
    return hx_audit_fail(stage, "the number of effects did not come to rest");
}

/* ---- what is said ---- */

static void make_key(char ret_key[40])
{
    struct hx_clock_os clock;
    uint8_t random[10];
    hx_clock_os_init(&clock);
    hx_rand_fill(hx_rand_os(), random, sizeof(random));
    struct hx_id id = hx_id_make(hx_clock_now(&clock.clock).wall, random);
    hx_id_format(&id, ret_key);
}

static void set_value(struct hx_audit_stage *stage, const char *tail)
{
    snprintf(stage->name, sizeof(stage->name), "%s-%02zu", stage->plan->run, stage->seen->trial);
    snprintf(stage->value, sizeof(stage->value), "%.30s%s", stage->name, tail);
    stage->number = (uint64_t)stage->plan->number * 100 + stage->seen->trial * 2 + (tail[0] != 0);
}

void hx_audit_other_arguments(struct hx_audit_stage *stage)
{
    set_value(stage, "b");
}

bool hx_audit_begin(struct hx_audit_stage *stage)
{
    make_key(stage->keys[0]);
    make_key(stage->keys[1]);
    set_value(stage, "");
    if (!hx_audit_look(stage))
        return false;
    stage->before = stage->seen->effects;
    stage->seen->effects = 0;
    return true;
}

static void put_arguments(const struct hx_audit_stage *stage, struct hx_buf *out)
{
    const struct hx_key_place *place = &stage->plan->key;
    const char *template = stage->plan->arguments;
    if (stage->key != NULL && place->kind == HX_KEY_PLACE_POINTER) {
        hx_buf_append_char(out, '{');
        hx_json_text_quote(out, hx_span_cstr(place->text + 1));
        hx_buf_printf(out, ":\"%s\"", stage->key);
        template += 1 + strspn(template + 1, " \t\r\n");
        hx_buf_append_cstr(out, *template == '}' ? "" : ",");
    }
    hx_audit_fill(template, stage->value, stage->number, out);
}

static void put_call(const struct hx_audit_stage *stage, unsigned id, struct hx_buf *out)
{
    const struct hx_key_place *place = &stage->plan->key;
    hx_buf_printf(out,
                  "{\"jsonrpc\":\"2.0\",\"id\":%u,\"method\":\"tools/call\",\"params\":{"
                  "\"name\":",
                  id);
    hx_json_text_quote(out, hx_span_cstr(stage->plan->tool));
    hx_buf_append_cstr(out, ",\"arguments\":");
    put_arguments(stage, out);
    if (stage->key != NULL && place->kind == HX_KEY_PLACE_META) {
        hx_buf_append_cstr(out, ",\"_meta\":{");
        hx_json_text_quote(out, hx_span_cstr(place->text));
        hx_buf_printf(out, ":\"%s\"}", stage->key);
    }
    if (stage->key != NULL && place->kind == HX_KEY_PLACE_SEP3182)
        hx_buf_printf(out, ",\"idempotencyKey\":\"%s\"", stage->key);
    hx_buf_append_cstr(out, "}}");
}

static bool say(struct hx_audit_stage *stage, const struct hx_buf *message, unsigned id)
{
    char header[256] = "";
    const struct hx_key_place *place = &stage->plan->key;
    if (id > 0 && stage->key != NULL && place->kind == HX_KEY_PLACE_HEADER)
        snprintf(header, sizeof(header), "%s: %s\n", place->text, stage->key);
    if (hx_buf_ok(message) &&
        hx_mcp_client_say(&stage->client, hx_buf_span(message), id, hx_span_cstr(header)))
        return true;
    return hx_audit_fail(stage, "the server went away before the call was sent");
}

bool hx_audit_call(struct hx_audit_stage *stage, unsigned id, unsigned count)
{
    struct hx_buf message;
    bool is_sent = true;
    hx_buf_init(&message, MESSAGE_MAX);
    /* A pipe is one stream, so all of them can be one message to it; over HTTP each is its own. */
    bool is_one_piece = stage->plan->command != NULL;
    for (unsigned i = 0; i < count && is_sent; i++) {
        if (i > 0 && is_one_piece)
            hx_buf_append_char(&message, '\n');
        put_call(stage, id + i, &message);
        if (!is_one_piece || i + 1 == count) {
            is_sent = say(stage, &message, id + i);
            hx_buf_reset(&message);
        }
    }
    hx_buf_fini(&message);
    stage->sent = hx_mcp_now();
    stage->seen->calls += (int)count;
    return is_sent;
}

bool hx_audit_cancel(struct hx_audit_stage *stage, unsigned id)
{
    struct hx_buf message;
    hx_buf_init(&message, MESSAGE_MAX);
    hx_mcp_client_give_up(&stage->client, id);
    hx_buf_printf(&message,
                  "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{"
                  "\"requestId\":%u,\"reason\":\"Request timed out\"}}",
                  id);
    bool is_sent = say(stage, &message, 0);
    hx_buf_fini(&message);
    return is_sent;
}

/* ---- what comes back ---- */

bool hx_audit_connect(struct hx_audit_stage *stage)
{
    struct hx_mcp_client *client = &stage->client;
    hx_mcp_client_stop(client);
    int rc = stage->plan->command
                 ? hx_mcp_client_start(client, stage->plan->command, stage->plan->errors)
                 : hx_mcp_client_open_url(client, stage->plan->url, stage->plan->settings);
    if (rc != 0)
        return hx_audit_fail(stage, "%s", hx_fault_last()->text);
    if (hx_mcp_client_handshake(client, hx_mono_after(hx_mcp_now(), CONNECT_MS)))
        return true;
    if (client->is_closed)
        return hx_audit_fail(stage, "the server ended before it was greeted");
    return hx_audit_fail(stage, "the server did not answer 'initialize': %s",
                         client->answers[0].is_there ? client->answers[0].text : "nothing came");
}

bool hx_audit_is_answered(struct hx_audit_stage *stage, unsigned id)
{
    return hx_mcp_client_wait(&stage->client, id, hx_mono_after(hx_mcp_now(), LOOK_PAUSE_MS));
}

/* A code in an envelope of ours is ours; in an error others may mean their own by the same word. */
static enum hx_audit_told classify(const struct hx_mcp_answer *answer)
{
    bool is_ours = answer->is_result && answer->code[0] != '\0';
    if (is_ours ? strcmp(answer->code, "FAILED") == 0 || strcmp(answer->code, "CANCELLED") == 0
                : strcmp(answer->code, "UPSTREAM_UNAVAILABLE") == 0)
        return HX_AUDIT_TOLD_ABSENT;
    if (!answer->is_error)
        return HX_AUDIT_TOLD_DONE;
    return is_ours ? HX_AUDIT_TOLD_UNKNOWN : HX_AUDIT_TOLD_ERROR;
}

void hx_audit_listen(struct hx_audit_stage *stage, unsigned id)
{
    struct hx_audit_seen *seen = stage->seen;
    const struct hx_mcp_answer *answer = &stage->client.answers[id];
    if (!hx_mcp_client_wait(&stage->client, id,
                            hx_mono_after(hx_mcp_now(), stage->plan->timeout_ms))) {
        seen->told = HX_AUDIT_TOLD_NOTHING;
        snprintf(seen->words, sizeof(seen->words), "%s",
                 stage->client.is_closed ? "the connection ended"
                 : answer->is_lost       ? "the request ended without an answer"
                                         : "nothing in time");
        return;
    }
    seen->told = classify(answer);
    if (answer->code[0] != '\0')
        snprintf(seen->words, sizeof(seen->words), "%s", answer->code);
    else if (answer->is_error)
        snprintf(seen->words, sizeof(seen->words), "error: %.100s", answer->text);
    else
        snprintf(seen->words, sizeof(seen->words), "a result");
}
