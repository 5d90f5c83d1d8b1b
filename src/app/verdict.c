/* SPDX-License-Identifier: MIT */
#include "app/verdict.h"

#include "app/ops_text.h"

void hx_verdict_put(struct hx_json_writer *writer, enum hx_event_type decision,
                    const struct hx_verdict *verdict, struct hx_span sentence,
                    const struct hx_now *now)
{
    const struct hx_ops_json options = {.now = *now, .has_age = true};
    hx_json_open_object(writer);
    hx_json_add_cstr(writer, "decision", hx_decision_name(decision));
    hx_json_put_name(writer, "is_applied");
    hx_json_put_bool(writer, verdict->answer == HX_ANSWER_DONE);
    hx_json_add_cstr(writer, "answer", hx_answer_name(verdict->answer));
    hx_json_add_string(writer, "sentence", sentence);
    hx_json_put_name(writer, "operation");
    if (verdict->found == NULL) {
        hx_json_put_null(writer);
    } else {
        hx_json_open_object(writer);
        hx_ops_put_operation(writer, verdict->found, &options);
        hx_json_close_object(writer);
    }
    hx_json_close_object(writer);
}
