/* SPDX-License-Identifier: MIT */
/*
 * A client and three servers that say anything in any order. Whatever it is, each message of the
 * client ends exactly once, with an answer or settled, as soon as every server has answered or is
 * gone; and no server is told anything after its end (the kit asserts that).
 *
 * Two bytes are one step: what happens, and which of its forms. Some forms take the bytes that
 * follow as text, in an alphabet that makes JSON likely.
 */
#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "merge_kit.h"
#include "tests/fuzz/fuzz.h"

enum { EXCHANGES_MAX = 2048, TEXT_MAX = 1024 };

enum fate { FATE_OPEN, FATE_ENDED, FATE_GONE };

struct input {
    const uint8_t *data;
    size_t size;
};

struct play {
    struct merge_kit kit;
    struct input input;
    enum fate fates[EXCHANGES_MAX];
    unsigned exchange_count;
    unsigned id_count;
    bool is_over; /* the client is gone */
};

static uint8_t take(struct input *input)
{
    if (input->size == 0)
        return 0;
    input->size--;
    return *input->data++;
}

static const char *const client_forms[] = {
    "{\"jsonrpc\":\"2.0\",\"id\":%u,\"method\":\"initialize\",\"params\":{\"protocolVersion\":"
    "\"2025-03-26\"}}",
    "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}",
    "{\"jsonrpc\":\"2.0\",\"id\":%u,\"method\":\"ping\"}",
    "{\"jsonrpc\":\"2.0\",\"id\":%u,\"method\":\"tools/list\"}",
    "{\"jsonrpc\":\"2.0\",\"id\":%u,\"method\":\"prompts/list\",\"params\":{}}",
    "{\"jsonrpc\":\"2.0\",\"id\":%u,\"method\":\"resources/list\"}",
    "{\"jsonrpc\":\"2.0\",\"id\":%u,\"method\":\"resources/templates/list\"}",
    "{\"jsonrpc\":\"2.0\",\"id\":%u,\"method\":\"tools/call\",\"params\":{\"name\":\"a_x\"}}",
    "{\"jsonrpc\":\"2.0\",\"id\":%u,\"method\":\"tools/call\",\"params\":{\"name\":\"b_x\"}}",
    "{\"jsonrpc\":\"2.0\",\"id\":%u,\"method\":\"tools/call\",\"params\":{\"name\":\"z\"}}",
    "{\"jsonrpc\":\"2.0\",\"id\":%u,\"method\":\"tools/call\",\"params\":{\"name\":"
    "\"a_0123456789012345678901234567890123456789012345678_0123456789\"}}",
    "{\"jsonrpc\":\"2.0\",\"id\":%u,\"method\":\"prompts/get\",\"params\":{\"name\":\"c_x\"}}",
    "{\"jsonrpc\":\"2.0\",\"id\":%u,\"method\":\"resources/read\",\"params\":{\"uri\":\"u:1\"}}",
    "{\"jsonrpc\":\"2.0\",\"id\":%u,\"method\":\"resources/"
    "subscribe\",\"params\":{\"uri\":\"v:\"}}",
    "{\"jsonrpc\":\"2.0\",\"id\":%u,\"method\":\"logging/setLevel\",\"params\":{}}",
    "{\"jsonrpc\":\"2.0\",\"id\":%u,\"method\":\"completion/complete\",\"params\":{\"ref\":{"
    "\"type\":\"ref/resource\",\"uri\":\"u:{x}\"}}}",
    "{\"jsonrpc\":\"2.0\",\"id\":%u,\"method\":\"acme/x\"}",
    "{\"jsonrpc\":\"2.0\",\"method\":\"acme/note\"}",
    "{\"jsonrpc\":\"2.0\",\"id\":\"hx-1\",\"result\":{}}",
    "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\",\"params\":{\"progressToken\":1}}",
    "{\"jsonrpc\":\"2.0\",\"id\":%u,\"method\":\"hapax/operations/get\"}",
    "{",
    "[]",
};

static const char *const answer_forms[] = {
    "{\"jsonrpc\":\"2.0\",\"id\":0,\"result\":{}}",
    "{\"jsonrpc\":\"2.0\",\"id\":0,\"error\":{\"code\":-32601,\"message\":\"no\"}}",
    "{\"jsonrpc\":\"2.0\",\"id\":0,\"error\":{\"code\":1502,\"message\":\"gone\"}}",
    "{\"jsonrpc\":\"2.0\",\"id\":0,\"error\":{\"code\":-32002}}",
    "{\"jsonrpc\":\"2.0\",\"id\":0,\"result\":{\"protocolVersion\":\"2025-03-26\",\"capabilities\":"
    "{"
    "\"tools\":{},\"resources\":{},\"logging\":{},\"extensions\":{\"x\":{}}},\"instructions\":"
    "\"i\"}}",
    "{\"jsonrpc\":\"2.0\",\"id\":0,\"result\":{\"protocolVersion\":\"2025-11-25\"}}",
    "{\"jsonrpc\":\"2.0\",\"id\":0,\"result\":{\"tools\":[{\"name\":\"x\"},{\"name\":7},"
    "{\"name\":\"012345678901234567890123456789012345678901234567890123456789xyzw\"}]}}",
    "{\"jsonrpc\":\"2.0\",\"id\":0,\"result\":{\"tools\":[{\"name\":\"y\"}],\"nextCursor\":\"1\"}}",
    "{\"jsonrpc\":\"2.0\",\"id\":0,\"result\":{\"resources\":[{\"uri\":\"u:1\"}]}}",
    "{\"jsonrpc\":\"2.0\",\"id\":0,\"result\":{\"resourceTemplates\":[{\"uriTemplate\":\"u:{x}\"}]}"
    "}",
    "7",
};

static const char *const aside_forms[] = {
    "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\",\"params\":{\"logger\":\"l\"}}",
    "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\",\"params\":{}}",
    "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/tools/list_changed\"}",
    "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/resources/list_changed\"}",
    "{\"jsonrpc\":\"2.0\",\"id\":\"hx-1\",\"method\":\"roots/list\",\"params\":{\"_meta\":{"
    "\"progressToken\":1}}}",
    "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{\"requestId\":"
    "\"hx-1\"}}",
    "no JSON",
};

#define FORMS(table) (sizeof(table) / sizeof((table)[0]))

/* Free text: mostly what messages consist of. */
static void free_text(struct input *input, char *text, size_t size)
{
    static const char *const pieces[] = {"{",
                                         "}",
                                         "[",
                                         "]",
                                         ",",
                                         ":",
                                         "\"",
                                         "\\u0061",
                                         "0",
                                         "1e9",
                                         "null",
                                         " ",
                                         "\"id\":",
                                         "\"name\":",
                                         "\"method\":",
                                         "\"params\":{",
                                         "\"jsonrpc\":\"2.0\"",
                                         "\"tools/call\"",
                                         "\"a_x\"",
                                         "\"uri\":",
                                         "\"result\":{",
                                         "\"error\":{",
                                         "\"code\":1",
                                         "\"tools\":[",
                                         "\"nextCursor\":",
                                         "\xc3\xa9",
                                         "\"ref\":{",
                                         "\"_meta\":{",
                                         "-",
                                         "x"};
    size_t len = 0;
    unsigned count = take(input) % 24;

    text[0] = '\0';
    for (unsigned i = 0; i < count; i++) {
        const char *piece = pieces[take(input) % FORMS(pieces)];
        if (len + strlen(piece) + 1 >= size)
            break;
        memcpy(text + len, piece, strlen(piece) + 1);
        len += strlen(piece);
    }
}

static void write_client(struct play *play, uint8_t form, char *text, size_t size)
{
    size_t at = form % (FORMS(client_forms) + 2);
    if (at < FORMS(client_forms))
        snprintf(text, size, client_forms[at], ++play->id_count);
    else if (at == FORMS(client_forms))
        snprintf(text, size,
                 "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{"
                 "\"requestId\":%u}}",
                 play->id_count > 0 ? 1 + take(&play->input) % play->id_count : 0);
    else
        free_text(&play->input, text, size);
}

/* --- what came --- */

static void look_at_client(struct play *play)
{
    struct merge_kit_word *word;
    while ((word = merge_kit_take(&play->kit.said)) != NULL) {
        if (word->kind != MERGE_KIT_ASIDE) {
            hx_assert(word->exchange > 0 && word->exchange <= play->exchange_count);
            enum fate *fate = &play->fates[word->exchange - 1];
            hx_assert(*fate == FATE_OPEN);
            *fate = FATE_ENDED;
        }
        merge_kit_word_free(word);
    }
}

/* The engine's way with a cancel: the request of that id is settled. */
static void settle_cancelled(struct play *play, size_t at, const char *text)
{
    struct merge_kit_leg *leg = &play->kit.legs[at];
    struct hx_downstream *downstream = hx_merge_leg(play->kit.merge, at);
    const char *found = strstr(text, "\"requestId\":");
    char id[32];

    if (found == NULL || strstr(text, "notifications/cancelled") == NULL)
        return;
    snprintf(id, sizeof id, "\"id\":%lu,", strtoul(found + 12, NULL, 10));
    hx_list_for_each_safe (node, &leg->open) {
        struct merge_kit_word *open = hx_container_of(node, struct merge_kit_word, node);
        if (strstr(open->text, id) == NULL)
            continue;
        downstream->ops->settle(downstream, open->exchange, HX_SETTLING_TAKEN);
        merge_kit_word_free(open);
        merge_kit_collect(&play->kit);
        return;
    }
}

static void look(struct play *play)
{
    struct merge_kit_word *word;
    merge_kit_collect(&play->kit);
    for (size_t i = 0; i < play->kit.leg_count; i++) {
        while ((word = merge_kit_take(&play->kit.legs[i].got)) != NULL) {
            settle_cancelled(play, i, word->text);
            merge_kit_word_free(word);
        }
    }
    look_at_client(play);
}

/* --- what happens --- */

static void client_says(struct play *play, uint8_t form)
{
    char text[TEXT_MAX];
    if (play->exchange_count >= EXCHANGES_MAX)
        return;
    if (form >= 200) {
        /* several at once */
        size_t len = 1;
        text[0] = '[';
        for (unsigned i = 0; i < 1u + form % 4; i++) {
            char one[TEXT_MAX / 4];
            write_client(play, take(&play->input), one, sizeof one);
            len += (size_t)snprintf(text + len, sizeof text - len, "%s%s", i > 0 ? "," : "", one);
            if (len >= sizeof text - 2)
                len = sizeof text - 2;
        }
        memcpy(text + len, "]", 2);
    } else {
        write_client(play, form, text, sizeof text);
    }
    play->fates[play->exchange_count++] = FATE_OPEN;
    merge_kit_client(&play->kit, HX_PEER_MESSAGE, play->exchange_count, 0, text);
}

/* False when the server owes nothing. */
static bool leg_answers(struct play *play, size_t at, uint8_t form)
{
    struct merge_kit_leg *leg = &play->kit.legs[at];
    char text[TEXT_MAX];
    struct hx_list *node = form & 1 ? hx_list_first(&leg->open) : hx_list_last(&leg->open);
    if (node == NULL)
        return false;
    struct merge_kit_word *open = hx_container_of(node, struct merge_kit_word, node);
    uint64_t exchange = open->exchange;
    size_t which = (form >> 1) % (FORMS(answer_forms) + 1);
    merge_kit_word_free(open);
    if (which < FORMS(answer_forms))
        snprintf(text, sizeof text, "%s", answer_forms[which]);
    else
        free_text(&play->input, text, sizeof text);
    merge_kit_answer(&play->kit, at, exchange, HX_SENDING_ANSWER, text[0] != '\0' ? text : "1");
    return true;
}

static void leg_says(struct play *play, size_t at, uint8_t form)
{
    char text[TEXT_MAX];
    struct hx_list *node = hx_list_first(&play->kit.legs[at].open);
    size_t which = form % (FORMS(aside_forms) + 1);
    if (which < FORMS(aside_forms))
        snprintf(text, sizeof text, "%s", aside_forms[which]);
    else
        free_text(&play->input, text, sizeof text);
    merge_kit_answer(&play->kit, at,
                     node != NULL ? hx_container_of(node, struct merge_kit_word, node)->exchange
                                  : 0,
                     HX_SENDING_ASIDE, text[0] != '\0' ? text : "1");
}

static void exchange_goes(struct play *play, uint8_t form)
{
    if (play->exchange_count == 0)
        return;
    unsigned at = form % play->exchange_count;
    if (play->fates[at] == FATE_OPEN)
        play->fates[at] = FATE_GONE;
    merge_kit_client(&play->kit, HX_PEER_EXCHANGE_GONE, at + 1, 0, "");
}

static void step(struct play *play)
{
    static const enum hx_peer_event_type fates[] = {HX_PEER_WRITTEN, HX_PEER_NOT_SENT, HX_PEER_CUT,
                                                    HX_PEER_TAKEN_BACK};
    uint8_t what = take(&play->input);
    uint8_t form = take(&play->input);
    size_t leg = what % play->kit.leg_count;

    if (what < 100) {
        client_says(play, form);
    } else if (what < 200) {
        if (!play->kit.legs[leg].is_over)
            (void)leg_answers(play, leg, form);
    } else if (what < 230) {
        if (!play->kit.legs[leg].is_over)
            leg_says(play, leg, form);
    } else if (what < 240) {
        exchange_goes(play, form);
    } else if (what < 250) {
        merge_kit_client(&play->kit, fates[form % 4], 0, play->kit.last_outer_tag, "");
    } else if (what < 253) {
        if (!play->kit.legs[leg].is_over)
            merge_kit_over(&play->kit, leg);
    } else if (what == 253) {
        merge_kit_client(&play->kit, HX_PEER_ENDED, 0, 0, "");
        play->is_over = true;
    }
    look(play);
}

/* Every server answers what it owes, or ends. */
static void finish(struct play *play, struct fuzz_dice *dice)
{
    enum { ROUNDS_MAX = 10000 };
    for (size_t i = 0; i < play->kit.leg_count; i++) {
        struct merge_kit_leg *leg = &play->kit.legs[i];
        if (!leg->is_over && fuzz_roll(dice, 4) == 0)
            merge_kit_over(&play->kit, i);
        look(play);
    }
    bool had_any = true;
    for (int round = 0; had_any; round++) {
        hx_assert(round < ROUNDS_MAX);
        had_any = false;
        for (size_t i = 0; i < play->kit.leg_count; i++) {
            /* no further pages: any form but that one */
            uint8_t form = (uint8_t)(fuzz_roll(dice, 7) << 1);
            if (!play->kit.legs[i].is_over)
                had_any |= leg_answers(play, i, form);
            look(play);
        }
    }
    for (unsigned i = 0; i < play->exchange_count && !play->is_over; i++)
        hx_assert(play->fates[i] != FATE_OPEN);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const three[] = {"a=a_", "b=b_", "c=c_", NULL};
    static struct play play;
    struct fuzz_dice dice = fuzz_dice(data, size);
    struct hx_merge_options options = hx_merge_defaults();

    options.pages_max = 8;
    options.items_max = 40;
    options.requests_max = 16;
    options.known_max = 8;
    options.message_max_bytes = 8192;
    play = (struct play){.input = {data, size}};
    merge_kit_init(&play.kit, true, three, &options);
    while (play.input.size > 0 && !play.is_over)
        step(&play);
    finish(&play, &dice);
    merge_kit_fini(&play.kit);
    return 0;
}
