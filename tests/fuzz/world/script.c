/* SPDX-License-Identifier: MIT */
/*
 * The commands. Each is one letter and the characters named behind it; "0" counts as 0, ":" as 10,
 * and so on. TEXT goes to the end of the line; in it "~" stands for the member "jsonrpc", "^" for
 * the id of the newest request, "%" for that of the newest operation. What is no command is passed
 * over.
 *
 *   the client        I f    initialize and initialized; f: its revision, and can it be asked?
 *                     C t k a  calls tool t under key k (0 none) with argument a
 *                     L      tools/list     P n  some other request
 *                     R n    says its n-th newest request again, with its id
 *                     X n r  cancels the n-th newest; r: why
 *                     O w k  asks about operations, by key, or settles the newest one
 *                     W TEXT  a line      w TEXT  bytes, and no end of a line
 *                     A n f  answers what it is asked
 *                     G h    leaves       g n  its n-th exchange is cut       r n  comes back to it
 *                     N      another client comes        @ n  commands are for client n
 *                     b n    client n comes back after its gateway was killed
 *                     V m    what is written to it is taken at once (0) or not (1)
 *   the server        a n f  answers the n-th newest request    l n f  over HTTP: does not
 *                     S TEXT  a line      s TEXT  bytes         q f  says something of its own
 *                     D s    dies         H  stops reading, and is seen to    E  closes its input
 *                     u      the next start fails                e  the next request is not sent
 *                     Q      forgets the session                 J n  gives a point to resume from
 *                     U n    commands are for way n
 *   everybody         M a b  the next message made here is cut at a, or changed there by b
 *                     T n    time passes: n = 0 one ms, and eight times as much with each
 *   the ledger        Z m    answers at once (0), writes nothing (1), says nothing (2)
 *                     z      catches up
 *                     F h    the next commit: 0 refused, 1 done but in doubt, 2 not done, in doubt
 *                     f      all doubt ends     B h  0 whole, 1 cannot be written, 2 nor the spool
 *   the gateway       K      is killed, and another one comes    Y  drains    y  stops draining
 */
#include "tests/fuzz/world/world.h"

#include <stdio.h>
#include <string.h>

#include "engine/internal.h"

struct input {
    const uint8_t *at;
    const uint8_t *end;
};

static unsigned take(struct input *input)
{
    return input->at < input->end ? (uint8_t)(*input->at++ - '0') : 0;
}

static struct hx_span take_text(struct input *input)
{
    const char *begin = (const char *)input->at;
    const uint8_t *stop = memchr(input->at, '\n', (size_t)(input->end - input->at));
    size_t len = (size_t)((stop != NULL ? stop : input->end) - input->at);
    input->at = stop != NULL ? stop + 1 : input->end;
    return hx_span(begin, len);
}

static void newest_operation(struct world *world, char ret_text[HX_ID_TEXT_SIZE])
{
    const struct hx_record *row, *newest = NULL;
    for (size_t i = 0; (row = hx_memory_ledger_row(world->ledger, i)) != NULL; i++)
        newest = row;
    const struct hx_id none = {{0}};
    hx_id_format(newest != NULL ? &newest->id : &none, ret_text);
}

/* Into `out`, which is cut off where it is full. */
static void expand(struct world *world, struct hx_buf *out, struct hx_span text, const char *id,
                   bool is_line)
{
    char operation[HX_ID_TEXT_SIZE];
    newest_operation(world, operation);
    hx_buf_init(out, WORLD_TEXT_MAX);
    for (size_t i = 0; i < text.len && out->len + 128 < WORLD_TEXT_MAX; i++) {
        if (text.ptr[i] == '~')
            hx_assert(hx_buf_append_cstr(out, "\"jsonrpc\":\"2.0\"") == 0);
        else if (text.ptr[i] == '^')
            hx_assert(hx_buf_append_cstr(out, id) == 0);
        else if (text.ptr[i] == '%')
            hx_assert(hx_buf_append_cstr(out, operation) == 0);
        else
            hx_assert(hx_buf_append_char(out, text.ptr[i]) == 0);
    }
    if (is_line)
        hx_assert(hx_buf_append_char(out, '\n') == 0);
}

static void client_says(struct world *world, char *text)
{
    size_t len = strlen(text);
    text[len++] = '\n';
    world_mangle(world, text, &len);
    world_client_line(world->door, hx_span(text, len));
}

static void initialize(struct world *world, unsigned form)
{
    static const char *const revisions[] = {"2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"};
    char text[512];
    snprintf(text, sizeof text - 1,
             "{\"jsonrpc\":\"2.0\",\"id\":%u,\"method\":\"initialize\",\"params\":{"
             "\"protocolVersion\":\"%s\",\"capabilities\":{%s},\"clientInfo\":{\"name\":\"c\","
             "\"version\":\"1\"}}}",
             ++world->id_count, revisions[form % 4],
             form / 4 % 2 == 0 ? "\"elicitation\":{}" : "\"roots\":{}");
    client_says(world, text);
    snprintf(text, sizeof text - 1,
             "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}");
    client_says(world, text);
}

static void call(struct world *world, unsigned tool, unsigned key, unsigned argument)
{
    static const char *const tools[] = {"pay",   "set",  "bank", "win",  "quiz", "key",
                                        "allow", "note", "open", "fund", "grow", "hapax_operation"};
    char text[512], params[96] = "", meta[192] = "", arguments[64], operation[HX_ID_TEXT_SIZE];
    key %= 7;
    if (key == 1 || key == 2)
        snprintf(meta, sizeof meta, ",\"_meta\":{\"dev.hapax/idempotencyKey\":\"key-%u\"}", key);
    else if (key == 3)
        snprintf(params, sizeof params, ",\"idempotencyKey\":\"key-1\"");
    else if (key == 4)
        snprintf(meta, sizeof meta, ",\"_meta\":{\"progressToken\":\"p%u\"}", world->id_count);
    newest_operation(world, operation);
    if (key == 6)
        snprintf(meta, sizeof meta,
                 ",\"_meta\":{\"dev.hapax/idempotencyKey\":\"key-1\",\"dev.hapax/retry\":\"%s\"}",
                 operation);
    snprintf(arguments, sizeof arguments, key == 5 ? "{\"a\":%u,\"k\":\"key-1\"}" : "{\"a\":%u}",
             argument % 3);
    snprintf(text, sizeof text - 1,
             "{\"jsonrpc\":\"2.0\",\"id\":%u,\"method\":\"tools/call\",\"params\":{\"name\":\"%s\","
             "\"arguments\":%s%s%s}}",
             ++world->id_count, tools[tool % 12], arguments, params, meta);
    client_says(world, text);
}

static void ask_about(struct world *world, unsigned what, unsigned key)
{
    static const char *const methods[] = {"get", "list", "cancel", "acknowledge", "begin"};
    static const char *const decisions[] = {"happened", "absent", "again"};
    char text[384], operation[HX_ID_TEXT_SIZE];
    newest_operation(world, operation);
    if (what % 8 >= 5) {
        snprintf(text, sizeof text - 1,
                 "{\"jsonrpc\":\"2.0\",\"id\":%u,\"method\":\"tools/call\",\"params\":{\"name\":"
                 "\"hapax_resolve\",\"arguments\":{\"id\":\"%s\",\"decision\":\"%s\"}}}",
                 ++world->id_count, operation, decisions[what % 8 - 5]);
        client_says(world, text);
        return;
    }
    snprintf(text, sizeof text - 1,
             "{\"jsonrpc\":\"2.0\",\"id\":%u,\"method\":\"hapax/operations/%s\",\"params\":{"
             "\"key\":\"key-%u\",\"tool\":\"%s\"}}",
             ++world->id_count, methods[what % 8], key % 3, key % 2 == 0 ? "set" : "pay");
    client_says(world, text);
}

static void plain(struct world *world, const char *method)
{
    char text[128];
    snprintf(text, sizeof text - 1, "{\"jsonrpc\":\"2.0\",\"id\":%u,\"method\":\"%s\"}",
             ++world->id_count, method);
    client_says(world, text);
}

static void cancel(struct world *world, const struct world_request *request, unsigned why)
{
    char text[256];
    snprintf(text, sizeof text - 1,
             "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{"
             "\"requestId\":%s%s}}",
             request->raw_id, why % 2 == 0 ? "" : ",\"reason\":\"request timed out\"");
    client_says(world, text);
}

static void say_again(struct world *world, const struct world_request *request)
{
    struct hx_buf line;
    hx_buf_init(&line, WORLD_TEXT_MAX);
    hx_assert(hx_buf_append_span(&line, hx_buf_span(&request->line)) == 0);
    hx_assert(hx_buf_append_char(&line, '\n') == 0);
    world_client_line(world->door, hx_buf_span(&line));
    hx_buf_fini(&line);
}

static void raw_client(struct world *world, struct hx_span text, bool is_line)
{
    struct hx_buf out;
    const struct world_request *newest = world_request_at(world->door, 0);
    expand(world, &out, text, newest != NULL ? newest->raw_id : "1", is_line);
    world_client_line(world->door, hx_buf_span(&out));
    hx_buf_fini(&out);
}

static void raw_server(struct world_way *way, struct hx_span text, bool is_line)
{
    struct hx_buf out;
    const struct world_owed *newest = world_owed_at(way, 0);
    expand(way->world, &out, text, newest != NULL ? newest->raw_id : "1", is_line);
    world_server_line(way, hx_buf_span(&out));
    hx_buf_fini(&out);
}

static struct world_exchange *exchange_at(struct world_door *door, unsigned n)
{
    for (struct hx_list *at = door->exchanges.prev; at != &door->exchanges; at = at->prev) {
        if (n-- == 0)
            return hx_container_of(at, struct world_exchange, node);
    }
    return NULL;
}

static struct world_question *question_at(struct world_door *door, unsigned n)
{
    hx_list_for_each (at, &door->questions) {
        if (n-- == 0)
            return hx_container_of(at, struct world_question, node);
    }
    return NULL;
}

static struct world_door *door_at(struct world *world, unsigned n)
{
    hx_list_for_each (at, &world->doors) {
        if (n-- == 0)
            return hx_container_of(at, struct world_door, node);
    }
    return world->door;
}

/* False: it is no command of the client's. */
static bool play_client(struct world *world, char letter, struct input *input)
{
    static const char *const others[] = {"ping", "logging/setLevel", "resources/subscribe",
                                         "prompts/list", "hapax/operations/list"};
    struct world_door *door = world->door;
    struct world_request *request;
    struct world_question *question;
    struct world_exchange *exchange;
    unsigned n, m;
    switch (letter) {
    case 'I':
        initialize(world, take(input));
        return true;
    case 'C':
        n = take(input);
        m = take(input);
        call(world, n, m, take(input));
        return true;
    case 'L':
        plain(world, "tools/list");
        return true;
    case 'P':
        plain(world, others[take(input) % 5]);
        return true;
    case 'R':
        request = world_request_at(door, take(input));
        if (request != NULL)
            say_again(world, request);
        return true;
    case 'X':
        request = world_request_at(door, take(input));
        n = take(input);
        if (request != NULL && request->raw_id[0] != '\0')
            cancel(world, request, n);
        return true;
    case 'O':
        n = take(input);
        ask_about(world, n, take(input));
        return true;
    case 'W':
    case 'w':
        raw_client(world, take_text(input), letter == 'W');
        return true;
    case 'A':
        question = question_at(door, take(input));
        n = take(input);
        if (question != NULL)
            world_client_answer(door, question, n);
        return true;
    case 'G':
        world_client_leave(door, take(input) % 4);
        return true;
    case 'g':
    case 'r':
        exchange = exchange_at(door, take(input));
        if (exchange != NULL && letter == 'g')
            world_client_cut(door, exchange);
        else if (exchange != NULL && exchange->state != WORLD_EXCHANGE_OPEN)
            world_client_resume(door, exchange->name);
        return true;
    case 'N':
        if (world->is_web && world->door_count < WORLD_DOORS_MAX &&
            !hx_gateway_is_draining(world->gateway))
            world->door = world_door_new(world);
        return true;
    case 'b':
        world_client_return(door_at(world, take(input)));
        return true;
    case '@':
        world->door = door_at(world, take(input));
        return true;
    case 'V':
        world->is_front_slow = take(input) % 2 == 1;
        if (!world->is_front_slow)
            world_client_write(door);
        return true;
    default:
        return false;
    }
}

static bool play_server(struct world *world, struct world_way *way, char letter,
                        struct input *input)
{
    struct world_owed *owed;
    unsigned form;
    switch (letter) {
    case 'a':
    case 'l':
        owed = world_owed_at(way, take(input));
        form = take(input);
        if (owed != NULL && letter == 'a')
            world_server_answer(way, owed, form);
        else if (owed != NULL)
            world_server_lose(way, owed, form);
        return true;
    case 'S':
    case 's':
        raw_server(way, take_text(input), letter == 'S');
        return true;
    case 'q':
        world_server_aside(way, take(input));
        return true;
    case 'D':
        world_server_die(way, (int)(take(input) % 2) << 8);
        return true;
    case 'H':
        world_server_stall(way, true);
        return true;
    case 'E':
        world_server_close_input(way);
        return true;
    case 'Q':
        world_server_forget_session(way);
        return true;
    case 'J':
        owed = world_owed_at(way, take(input));
        if (owed != NULL)
            world_server_point(way, owed);
        return true;
    case 'U':
        world->way = take(input) % 8;
        return true;
    default:
        return false;
    }
}

static void play_rest(struct world *world, char letter, struct input *input)
{
    static const enum hx_memory_failure failures[] = {HX_MEMORY_REFUSE, HX_MEMORY_LOSE_DONE,
                                                      HX_MEMORY_LOSE_NOT_DONE};
    unsigned n;
    switch (letter) {
    case 'u':
        world->bad_starts = 1;
        return;
    case 'e':
        world->not_sent = 1;
        return;
    case 'M':
        world->mangle_at = take(input) % 96;
        world->mangle_with = take(input);
        world->must_mangle = true;
        return;
    case 'T':
        world_pass(world, (int64_t)1 << 3 * (take(input) % 7));
        return;
    case 'Z':
        world->store_mode = (enum world_store_mode)(take(input) % 3);
        if (world->store_mode == WORLD_STORE_AT_ONCE)
            world_store_work(world);
        return;
    case 'z':
        world_store_work(world);
        return;
    case 'F':
        hx_memory_ledger_fail_at(world->ledger, 1, failures[take(input) % 3]);
        return;
    case 'f':
        hx_memory_ledger_settle(world->ledger);
        world_store_work(world);
        return;
    case 'B':
        n = take(input) % 3;
        hx_memory_ledger_break(world->ledger, n > 0, n > 1);
        return;
    case 'K':
        world_life_again(world);
        return;
    case 'Y':
        hx_gateway_drain(world->gateway);
        world->wake_at = world->now_ms;
        return;
    case 'y':
        hx_gateway_stop(world->gateway);
        world->wake_at = world->now_ms;
        return;
    default:
        return;
    }
}

void world_play(struct world *world, const uint8_t *data, size_t size)
{
    enum { COMMANDS_MAX = 400 };
    struct input input = {data, data + size};
    for (int i = 0; i < COMMANDS_MAX && input.at < input.end && world->gateway != NULL; i++) {
        char letter = (char)*input.at++;
        struct world_way *way = world_way_at(world, world->way);
        if (!play_client(world, letter, &input) &&
            (way == NULL || !play_server(world, way, letter, &input)))
            play_rest(world, letter, &input);
        world_settle(world);
    }
}
