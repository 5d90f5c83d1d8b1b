/* SPDX-License-Identifier: MIT */
#include "app/ops_value.h"

#include <string.h>

#include "app/nearest.h"
#include "app/number.h"
#include "base/whole.h"
#include "core/op.h"

int hx_ops_parse_states(const char *text, uint32_t *ret_states, struct hx_complaint *complaint)
{
    const char *names[HX_OP_STATE_COUNT];
    size_t name_count = 0;
    for (int state = HX_OP_ABSENT + 1; state < HX_OP_STATE_COUNT; state++)
        names[name_count++] = hx_op_state_name((enum hx_op_state)state);
    names[name_count++] = "open";
    for (;;) {
        size_t len = strcspn(text, ",");
        struct hx_span word = hx_span(text, len);
        enum hx_op_state state;
        if (hx_span_eq_cstr(word, "open")) {
            for (int i = HX_OP_ABSENT + 1; i < HX_OP_STATE_COUNT; i++)
                if (!hx_op_state_is_final((enum hx_op_state)i))
                    *ret_states |= 1u << i;
        } else if (hx_op_state_parse(word, &state) && state != HX_OP_ABSENT) {
            *ret_states |= 1u << state;
        } else {
            const char *near = hx_nearest(word, names, name_count);
            return hx_complain(complaint, "--state: there is no state '%.*s'%s%s%s",
                               (int)(len < 40 ? len : 40), text, near ? "; did you mean '" : "",
                               near ? near : "", near ? "'?" : "");
        }
        if (text[len] == '\0')
            return 0;
        text += len + 1;
    }
}

int hx_ops_parse_duration(const char *name, const char *text, int64_t *ret_ms,
                          struct hx_complaint *complaint)
{
    if (hx_duration_parse(hx_span_cstr(text), ret_ms))
        return 0;
    return hx_complain(
        complaint, "%s: '%.40s' is not possible; write a number with ms, s, m, h or d", name, text);
}

/* A moment, or a time ago. */
int hx_ops_parse_moment(const char *name, const char *text, struct hx_wall now,
                        struct hx_wall *ret_wall, struct hx_complaint *complaint)
{
    int64_t ago_ms;
    if (hx_wall_parse(text, strlen(text), ret_wall))
        return 0;
    if (hx_duration_parse(hx_span_cstr(text), &ago_ms) && ago_ms < now.ms) {
        ret_wall->ms = now.ms - ago_ms;
        return 0;
    }
    return hx_complain(complaint,
                       "%s: '%.40s' is not possible; write a moment with its zone, such as "
                       "2026-11-29T03:00:00Z, or a time ago, such as 9h",
                       name, text);
}

int hx_ops_parse_limit(const char *text, int64_t *ret_limit, struct hx_complaint *complaint)
{
    int64_t limit;
    if (hx_whole_parse(hx_span_cstr(text), &limit) && limit <= 1000000) {
        *ret_limit = limit;
        return 0;
    }
    return hx_complain(complaint, "--limit: '%.40s' is not possible; write a number up to 1000000",
                       text);
}

int hx_ops_parse_key_scope(const char *text, bool *ret_is_principal, struct hx_complaint *complaint)
{
    *ret_is_principal = strcmp(text, "principal") == 0;
    if (*ret_is_principal || strcmp(text, "tenant") == 0)
        return 0;
    return hx_complain(complaint,
                       "--key-scope: '%.40s' is not possible; choose tenant or principal", text);
}
