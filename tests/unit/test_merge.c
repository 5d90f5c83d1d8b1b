/* SPDX-License-Identifier: MIT */
/*
 * Many servers as one. What a conversation shows is in merge.stories; here is what it cannot show:
 * fates, streams, limits, ends.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "tests/kit/merge_kit.h"
#include "tests/kit/story.h"

static const char *const two[] = {"files=files_", "web=web_", NULL};
static struct story_book book;

static void run(struct merge_kit *kit, const char *name, const char *script)
{
    int line = merge_kit_run(kit, script);
    if (line != 0)
        print_error("in \"%s\"\n", name);
    assert_int_equal(line, 0);
}

static void test_stories(void **state)
{
    size_t count = 0;

    (void)state;
    for (const struct story *story = book.first; story != NULL; story = story->next) {
        struct merge_kit kit;
        merge_kit_init(&kit, true, two, NULL);
        run(&kit, story->name, story->script);
        merge_kit_fini(&kit);
        count++;
    }
    assert_true(count > 30);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_stories),
    };
    if (argc != 2 || !story_book_read(&book, argv[1])) {
        fprintf(stderr, "usage: test_merge FILE.stories\n");
        return 2;
    }
    int failed = cmocka_run_group_tests_name("merge", tests, NULL, NULL);
    story_book_free(&book);
    return failed;
}
