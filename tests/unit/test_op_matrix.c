/* SPDX-License-Identifier: MIT */
/*
 * Every event in every state and phase, with every combination of the guards that matter there.
 *
 *   test_op_matrix SNAPSHOT            compares, and checks that no guard was forgotten
 *   test_op_matrix SNAPSHOT --update   writes the snapshot anew
 *   test_op_matrix --markdown          prints the table of docs/states.md
 *
 * A change of the snapshot is a change of what Hapax promises. Read its lines against the contract
 * before committing it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "op_cells.h"

enum { TEXT_MAX = 8 * 1024 * 1024 };

/* --- one result in words -------------------------------------------------------------------- */

static void print_count(struct hx_buf *out, const char *name, long before, long after)
{
    if (before != after)
        (void)hx_buf_printf(out, " %s%+ld", name, after - before);
}

static void print_flag(struct hx_buf *out, const char *name, bool before, bool after)
{
    if (before != after)
        (void)hx_buf_printf(out, " %s%s", after ? "" : "not ", name);
}

static void print_write(struct hx_buf *out, const struct hx_op *op)
{
    static const char *const writes[] = {"mark", "insert", "update", "update+insert successor"};
    const struct hx_record *from = &op->durable;
    const struct hx_record *to = &op->next;
    (void)hx_buf_printf(out, "%s %s->%s", writes[op->write], hx_op_state_name(from->state),
                        hx_op_state_name(to->state));
    if (op->write == HX_WRITE_SUCCESSOR)
        (void)hx_buf_printf(out, " (%s)", hx_op_state_name(op->successor.state));
    if (to->state != from->state || to->reason != from->reason || from->state == HX_OP_RUNNING)
        (void)hx_buf_printf(out, " %s", hx_reason_name(to->reason));
    print_count(out, "fence", (long)from->fence, (long)to->fence);
    print_count(out, "attempt", from->attempt.number, to->attempt.number);
    if (from->attempt.state != to->attempt.state || from->attempt.number != to->attempt.number)
        (void)hx_buf_printf(out, " attempt:%s", hx_attempt_state_name(to->attempt.state));
    if (to->attempt.number == from->attempt.number)
        print_flag(out, "marked", from->attempt.is_marked, to->attempt.is_marked);
    print_count(out, "sends", from->sends, to->sends);
    print_count(out, "earlier_open", from->earlier.open, to->earlier.open);
    print_count(out, "earlier_asked", from->earlier.asked, to->earlier.asked);
    print_count(out, "earlier_refused", from->earlier.refused, to->earlier.refused);
    print_flag(out, "approved", from->is_approved, to->is_approved);
    print_flag(out, "disputed", from->is_disputed, to->is_disputed);
    print_flag(out, "superseded", from->is_superseded, to->is_superseded);
    print_flag(out, "tombstone", from->is_tombstone, to->is_tombstone);
    print_flag(out, "needs_human", from->needs_human, to->needs_human);
    print_flag(out, "outcome", from->outcome.kind != HX_OUTCOME_NONE,
               to->outcome.kind != HX_OUTCOME_NONE);
    if (to->not_before.wall.ms != from->not_before.wall.ms)
        (void)hx_buf_append_cstr(out, to->not_before.wall.ms != 0 ? " not_before" : " now");
    if (op->requires_unmarked)
        (void)hx_buf_append_cstr(out, " if unmarked");
}

static void print_effects(struct hx_buf *out, const struct hx_effects *effects)
{
    for (unsigned i = 0; i < effects->count; i++) {
        const struct hx_effect *effect = &effects->items[i];
        (void)hx_buf_printf(out, "%s%s", i == 0 ? "" : ", ", hx_effect_name(effect->type));
        if (effect->type == HX_DO_ANSWER_ALL || effect->type == HX_DO_ANSWER_CALLER)
            (void)hx_buf_printf(out, "(%s)", hx_answer_name(effect->answer));
        else if (effect->type == HX_DO_COUNT)
            (void)hx_buf_printf(out, "(%s)", hx_counter_name(effect->counter));
        else if (effect->type == HX_DO_LOOK_LATER)
            (void)hx_buf_printf(out, "(%lld ms)", (long long)effect->delay_ms);
    }
}

/* "state/phase; write; effects", or "-" when nothing changed and nothing is done. */
static void print_result(struct hx_buf *out, const struct cell *cell, const struct hx_op *op,
                         const struct hx_effects *effects)
{
    bool is_begun = false;
    for (unsigned i = 0; i < effects->count; i++)
        is_begun |= effects->items[i].type == HX_DO_PERSIST || effects->items[i].type == HX_DO_MARK;
    bool is_same = op->durable.state == cell->state && op->phase == cell->phase;
    if (is_same && !is_begun && effects->count == 0) {
        (void)hx_buf_append_cstr(out, "-");
        return;
    }
    if (is_same)
        (void)hx_buf_append_cstr(out, "same");
    else
        (void)hx_buf_printf(out, "%s/%s", hx_op_state_name(op->durable.state),
                            hx_op_phase_name(op->phase));
    if (is_begun) {
        (void)hx_buf_append_cstr(out, "; ");
        print_write(out, op);
    }
    if (effects->count > 0) {
        (void)hx_buf_append_cstr(out, "; ");
        print_effects(out, effects);
    }
}

/* NULL when no such operation can exist. Caller frees. */
static char *result_of(const struct cell *cell, const unsigned char assignment[D_COUNT])
{
    struct hx_op op;
    struct hx_event event;
    struct hx_record fresh;
    if (!cell_build(cell, assignment, &op, &event, &fresh))
        return NULL;
    struct hx_effects effects;
    hx_op_step(&op, &event, &effects);
    struct hx_buf out;
    hx_buf_init(&out, 4096);
    print_result(&out, cell, &op, &effects);
    char *text = hx_span_strdup(hx_buf_span(&out));
    hx_buf_fini(&out);
    return text;
}

/* --- the guards of a cell as a tree --------------------------------------------------------- */

struct lines {
    unsigned count;
    char **items; /* "guards -> result", guards may be empty */
};

static struct lines lines_none(void)
{
    return (struct lines){0, NULL};
}

static void lines_add(struct lines *lines, char *text)
{
    lines->items = hx_realloc(lines->items, (lines->count + 1) * sizeof(char *));
    assert_non_null(lines->items);
    lines->items[lines->count++] = text;
}

static void lines_free(struct lines *lines)
{
    for (unsigned i = 0; i < lines->count; i++)
        hx_free(lines->items[i]);
    hx_free(lines->items);
}

static bool lines_equal(const struct lines *a, const struct lines *b)
{
    if (a->count != b->count)
        return false;
    for (unsigned i = 0; i < a->count; i++) {
        if (strcmp(a->items[i], b->items[i]) != 0)
            return false;
    }
    return true;
}

static void join_values(struct hx_buf *out, enum dimension dimension, const struct lines *children,
                        const unsigned *group, unsigned wanted)
{
    const struct dimension_info *info = &cell_dimensions[dimension];
    bool is_first = true;
    (void)hx_buf_printf(out, "%s=", info->name);
    for (unsigned i = 0; i < cell_value_count(dimension); i++) {
        if (children[i].count == 0 || group[i] != wanted)
            continue;
        const char *value = info->values[i][0] != '\0' ? info->values[i] : "usual";
        (void)hx_buf_printf(out, "%s%s", is_first ? "" : "|", value);
        is_first = false;
    }
}

/* Values with the same results below share their lines; a dimension that changes nothing is not
 * mentioned. Combinations that cannot exist agree with everything. */
static struct lines merge(enum dimension dimension, struct lines *children)
{
    unsigned group[VALUES_MAX], group_count = 0, first[VALUES_MAX];
    unsigned count = cell_value_count(dimension);
    for (unsigned i = 0; i < count; i++) {
        if (children[i].count == 0)
            continue;
        unsigned g = 0;
        while (g < group_count && !lines_equal(&children[first[g]], &children[i]))
            g++;
        if (g == group_count)
            first[group_count++] = i;
        group[i] = g;
    }
    struct lines merged = lines_none();
    for (unsigned g = 0; g < group_count; g++) {
        struct lines *child = &children[first[g]];
        for (unsigned i = 0; i < child->count; i++) {
            struct hx_buf out;
            hx_buf_init(&out, 8192);
            if (group_count > 1) {
                join_values(&out, dimension, children, group, g);
                (void)hx_buf_append_char(&out, ' ');
            }
            (void)hx_buf_append_cstr(&out, child->items[i]);
            lines_add(&merged, hx_span_strdup(hx_buf_span(&out)));
            hx_buf_fini(&out);
        }
    }
    for (unsigned i = 0; i < count; i++)
        lines_free(&children[i]);
    return merged;
}

static struct lines explore(const struct cell *cell, dimension_set set, unsigned dimension,
                            unsigned char assignment[D_COUNT])
{
    while (dimension < D_COUNT && !(set >> dimension & 1))
        dimension++;
    struct lines lines = lines_none();
    if (dimension == D_COUNT) {
        char *result = result_of(cell, assignment);
        if (result == NULL)
            return lines;
        struct hx_buf out;
        hx_buf_init(&out, 8192);
        (void)hx_buf_printf(&out, "-> %s", result);
        lines_add(&lines, hx_span_strdup(hx_buf_span(&out)));
        hx_buf_fini(&out);
        hx_free(result);
        return lines;
    }
    struct lines children[VALUES_MAX];
    for (unsigned i = 0; i < cell_value_count((enum dimension)dimension); i++) {
        assignment[dimension] = (unsigned char)i;
        children[i] = explore(cell, set, dimension + 1, assignment);
    }
    assignment[dimension] = 0;
    return merge((enum dimension)dimension, children);
}

static bool next_cell(struct cell *cell)
{
    do {
        if (++cell->event < HX_EV_COUNT)
            continue;
        cell->event = 0;
        if (++cell->phase < HX_PHASE_COUNT)
            continue;
        cell->phase = 0;
        if (++cell->state == HX_OP_STATE_COUNT)
            return false;
    } while (!hx_op_is_possible(cell->state, cell->phase));
    return true;
}

static struct lines cell_lines(const struct cell *cell)
{
    unsigned char assignment[D_COUNT] = {0};
    return explore(cell, cell_dimensions_of(cell), 0, assignment);
}

static void print_matrix(struct hx_buf *out)
{
    struct cell cell = {0};
    (void)hx_buf_append_cstr(
        out, "# state/phase + event: guards -> state/phase after; write begun; effects\n"
             "# Written by `test_op_matrix SNAPSHOT --update`; a change here is a change of what "
             "is promised.\n");
    do {
        struct lines lines = cell_lines(&cell);
        for (unsigned i = 0; i < lines.count; i++)
            (void)hx_buf_printf(out, "%s/%s + %s: %s\n", hx_op_state_name(cell.state),
                                hx_op_phase_name(cell.phase), hx_event_name(cell.event),
                                lines.items[i]);
        lines_free(&lines);
    } while (next_cell(&cell));
}

/* --- the table of docs/states.md ------------------------------------------------------------ */

static void add_word(struct hx_buf *words, const char *word)
{
    char needle[160], haystack[1024];
    snprintf(needle, sizeof(needle), "%s, ", word);
    snprintf(haystack, sizeof(haystack), "%.*s", HX_SPAN_FMT(hx_buf_span(words)));
    if (strstr(haystack, needle) == NULL)
        (void)hx_buf_append_cstr(words, needle);
}

/* The word for one line of the matrix: where it goes, else what is answered, else what is done. */
static void summarize(struct hx_buf *words, const struct cell *cell, const char *line)
{
    const char *arrow = strstr(line, "->") + 3;
    const char *move = strstr(arrow, "->");
    char word[128];
    if (move != NULL) {
        char to[64];
        sscanf(move + 2, "%63[a-z_]", to);
        bool is_same = strcmp(to, hx_op_state_name(cell->state)) == 0;
        if (strstr(arrow, "successor") != NULL)
            snprintf(word, sizeof(word), "successor");
        else if (is_same)
            snprintf(word, sizeof(word),
                     cell->state == HX_OP_RUNNING ? "**next attempt**" : "noted");
        else
            snprintf(word, sizeof(word), "**%s**", to);
        add_word(words, word);
        return;
    }
    const char *answer = strstr(arrow, "answer_");
    if (answer != NULL) {
        sscanf(strchr(answer, '(') + 1, "%63[A-Za-z_]", word);
        add_word(words, word);
    } else if (strstr(arrow, "follow") != NULL) {
        add_word(words, "see successor");
    } else if (strstr(arrow, "join") != NULL || strstr(arrow, "watch") != NULL) {
        add_word(words, "wait");
    } else if (strstr(arrow, "look_later") != NULL) {
        add_word(words, "later");
    } else if (strstr(arrow, "ask_person") != NULL || strstr(arrow, "alarm") != NULL) {
        add_word(words, "people are told");
    } else {
        add_word(words, "–");
    }
}

static void print_markdown_cell(struct hx_buf *out, const struct cell *cell)
{
    struct hx_buf words;
    hx_buf_init(&words, 1024);
    struct lines lines = cell_lines(cell);
    for (unsigned i = 0; i < lines.count; i++)
        summarize(&words, cell, lines.items[i]);
    lines_free(&lines);
    struct hx_span text = hx_buf_span(&words);
    assert_true(text.len > 2);
    (void)hx_buf_printf(out, " %.*s |", (int)text.len - 2, text.ptr);
    hx_buf_fini(&words);
}

struct column {
    enum hx_op_state state;
    enum hx_op_phase phase;
    const char *title;
};

static void print_markdown_table(struct hx_buf *out, const struct column *columns, unsigned count)
{
    (void)hx_buf_append_cstr(out, "| event |");
    for (unsigned i = 0; i < count; i++)
        (void)hx_buf_printf(out, " %s |", columns[i].title);
    (void)hx_buf_append_cstr(out, "\n|---|");
    for (unsigned i = 0; i < count; i++)
        (void)hx_buf_append_cstr(out, "---|");
    (void)hx_buf_append_char(out, '\n');
    for (int event = 0; event < HX_EV_COUNT; event++) {
        bool is_of_write = event == HX_EV_STORED || event == HX_EV_STALE ||
                           event == HX_EV_STORE_FAILED || event == HX_EV_SPOOLED;
        bool is_of_attempt = event == HX_EV_FIRST_BYTE;
        if (is_of_write || is_of_attempt)
            continue;
        (void)hx_buf_printf(out, "| %s |", hx_event_name((enum hx_event_type)event));
        for (unsigned i = 0; i < count; i++) {
            struct cell cell = {columns[i].state, columns[i].phase, (enum hx_event_type)event};
            print_markdown_cell(out, &cell);
        }
        (void)hx_buf_append_char(out, '\n');
    }
}

static void print_markdown(struct hx_buf *out)
{
    static const struct column open[] = {
        {HX_OP_ABSENT, HX_PHASE_IDLE, "no row"},
        {HX_OP_AWAITING_APPROVAL, HX_PHASE_IDLE, "`awaiting_approval`"},
        {HX_OP_READY, HX_PHASE_IDLE, "`ready`"},
        {HX_OP_RUNNING, HX_PHASE_IDLE, "`running`, not by us"},
        {HX_OP_RUNNING, HX_PHASE_AWAITING, "`running`, by us"},
    };
    static const struct column rest[] = {
        {HX_OP_INPUT_REQUIRED, HX_PHASE_IDLE, "`input_required`"},
        {HX_OP_UNKNOWN, HX_PHASE_IDLE, "`unknown`"},
        {HX_OP_SUCCEEDED, HX_PHASE_IDLE, "`succeeded`"},
        {HX_OP_FAILED, HX_PHASE_IDLE, "`failed`"},
        {HX_OP_CANCELLED, HX_PHASE_IDLE, "`cancelled`"},
        {HX_OP_EXPIRED, HX_PHASE_IDLE, "`expired`"},
    };
    print_markdown_table(out, open, sizeof(open) / sizeof(open[0]));
    (void)hx_buf_append_char(out, '\n');
    print_markdown_table(out, rest, sizeof(rest) / sizeof(rest[0]));
}

/* --- the tests ------------------------------------------------------------------------------ */

static const char *snapshot_path;

static char *read_file(const char *path)
{
    FILE *file = fopen(path, "r");
    if (file == NULL)
        return hx_strdup("");
    char *text = hx_new_bytes(TEXT_MAX);
    size_t len = fread(text, 1, TEXT_MAX - 1, file);
    text[len] = '\0';
    fclose(file);
    return text;
}

static void matrix_is_as_reviewed(void **state)
{
    (void)state;
    struct hx_buf out;
    hx_buf_init(&out, TEXT_MAX);
    print_matrix(&out);
    char *now = hx_span_strdup(hx_buf_span(&out));
    char *then = read_file(snapshot_path);
    unsigned line = 1;
    const char *a = now, *b = then;
    while (*a != '\0' && *a == *b) {
        line += *a == '\n';
        a++, b++;
    }
    if (*a != *b) {
        while (a > now && a[-1] != '\n')
            a--, b--;
        print_error("%s:%u differs; review it, then run with --update\n  was %.*s\n  is  %.*s\n",
                    snapshot_path, line, (int)strcspn(b, "\n"), b, (int)strcspn(a, "\n"), a);
        fail();
    }
    hx_free(then);
    hx_free(now);
    hx_buf_fini(&out);
}

static uint64_t next_random(uint64_t *seed)
{
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    *seed ^= *seed << 17;
    return *seed;
}

static void print_difference(const struct cell *cell, const unsigned char all[D_COUNT],
                             dimension_set set, const char *with_listed, const char *with_all)
{
    print_error("%s/%s + %s depends on more than its list:\n  %s\n  %s\n",
                hx_op_state_name(cell->state), hx_op_phase_name(cell->phase),
                hx_event_name(cell->event), with_listed, with_all);
    for (unsigned d = 0; d < D_COUNT; d++) {
        if (all[d] != 0)
            print_error("    %s=%s%s\n", cell_dimensions[d].name, cell_dimensions[d].values[all[d]],
                        set >> d & 1 ? " (listed)" : "");
    }
}

/* False when an unlisted dimension changed the result. */
static bool sample_cell(const struct cell *cell, uint64_t *seed)
{
    dimension_set set = cell_dimensions_of(cell);
    unsigned char all[D_COUNT], listed[D_COUNT];
    for (unsigned d = 0; d < D_COUNT; d++) {
        all[d] = (unsigned char)(next_random(seed) % cell_value_count((enum dimension)d));
        /* Most stay at their usual value, or most assignments are impossible. */
        if (next_random(seed) % 4 != 0)
            all[d] = 0;
        listed[d] = set >> d & 1 ? all[d] : 0;
    }
    char *with_all = result_of(cell, all);
    char *with_listed = result_of(cell, listed);
    bool is_same = with_all == NULL || with_listed == NULL || strcmp(with_all, with_listed) == 0;
    if (!is_same)
        print_difference(cell, all, set, with_listed, with_all);
    hx_free(with_all);
    hx_free(with_listed);
    return is_same;
}

/* What is not listed for a cell must not change its result, so the matrix hides nothing. */
static void no_guard_is_forgotten(void **state)
{
    (void)state;
    const unsigned samples = 600;
    struct cell cell = {0};
    uint64_t seed = 0x9e3779b97f4a7c15u;
    unsigned failures = 0;
    do {
        for (unsigned i = 0; i < samples; i++) {
            if (!sample_cell(&cell, &seed)) {
                failures++;
                break;
            }
        }
    } while (next_cell(&cell));
    assert_int_equal(failures, 0);
}

static int write_out(const char *path, void (*print)(struct hx_buf *))
{
    struct hx_buf out;
    hx_buf_init(&out, TEXT_MAX);
    print(&out);
    FILE *file = path != NULL ? fopen(path, "w") : stdout;
    if (file == NULL || !hx_buf_ok(&out))
        return 1;
    fwrite(out.data, 1, out.len, file);
    hx_buf_fini(&out);
    return fclose(file) == 0 ? 0 : 1;
}

int main(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], "--markdown") == 0)
        return write_out(NULL, print_markdown);
    if (argc == 3 && strcmp(argv[2], "--update") == 0)
        return write_out(argv[1], print_matrix);
    if (argc != 2) {
        fprintf(stderr, "usage: test_op_matrix SNAPSHOT [--update] | --markdown\n");
        return 2;
    }
    snapshot_path = argv[1];
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(matrix_is_as_reviewed),
        cmocka_unit_test(no_guard_is_forgotten),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
