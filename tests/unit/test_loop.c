/* SPDX-License-Identifier: MIT */
/*
 * The loop: timers by the caller's clock, descriptors of every kind, signals and wake-ups.
 */
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "adapter/clock_os/clock_os.h"
#include "loop/fd_state.h"
#include "loop/loop.h"
#include "loop/timer_heap.h"
#include "nth.h"
#include "sanitized.h"

struct bed {
    struct hx_loop *loop;
    struct hx_mono now; /* what the loop believes */
    unsigned count;
    unsigned events;
    struct hx_loop_timer *timer;
    struct hx_loop_fd *watch;
};

static struct hx_mono bed_now(void *arg)
{
    return ((struct bed *)arg)->now;
}

static void bed_init(struct bed *bed)
{
    *bed = (struct bed){.now = {1000}};
    bed->loop = hx_loop_new(&(struct hx_loop_clock){.now = bed_now, .arg = bed});
    assert_non_null(bed->loop);
}

static void turn(struct bed *bed)
{
    assert_int_equal(hx_loop_run_once(bed->loop, 0), 0);
}

static void count_due(void *arg)
{
    ((struct bed *)arg)->count++;
}

static void set_again(void *arg)
{
    struct bed *bed = arg;

    bed->count++;
    hx_loop_timer_set(bed->timer, 0);
}

static void free_itself(void *arg)
{
    struct bed *bed = arg;

    bed->count++;
    bed->timer = hx_loop_timer_free(bed->timer);
}

static void test_a_timer_is_due_by_the_callers_clock(void **state)
{
    struct bed bed;

    (void)state;
    bed_init(&bed);
    bed.timer = hx_loop_timer_new(bed.loop, count_due, &bed);
    hx_loop_timer_set(bed.timer, 3600000);
    turn(&bed);
    assert_int_equal(bed.count, 0);
    bed.now.ms += 3600000; /* the laptop slept */
    turn(&bed);
    assert_int_equal(bed.count, 1);
    assert_false(hx_loop_timer_is_set(bed.timer));
    turn(&bed);
    assert_int_equal(bed.count, 1);
    hx_loop_timer_free(bed.timer);
    hx_loop_free(bed.loop);
}

static void test_a_timer_set_in_its_callback_waits_for_the_next_turn(void **state)
{
    struct bed bed;

    (void)state;
    bed_init(&bed);
    bed.timer = hx_loop_timer_new(bed.loop, set_again, &bed);
    hx_loop_timer_set(bed.timer, 0);
    turn(&bed);
    assert_int_equal(bed.count, 1);
    turn(&bed);
    assert_int_equal(bed.count, 2);
    hx_loop_timer_free(bed.timer);
    bed.timer = hx_loop_timer_new(bed.loop, free_itself, &bed);
    hx_loop_timer_set(bed.timer, 0);
    turn(&bed);
    assert_int_equal(bed.count, 3);
    hx_loop_free(bed.loop);
}

static void test_the_heap_gives_deadlines_in_order(void **state)
{
    enum { COUNT = 200 };
    static struct hx_loop_timer timers[COUNT];
    struct hx_timer_heap heap = {0};
    uint32_t seed = 1;
    int64_t last_ms = INT64_MIN;
    struct hx_loop_timer *first;
    unsigned left = 0;

    (void)state;
    for (unsigned i = 0; i < COUNT; i++) {
        seed = seed * 1664525 + 1013904223;
        timers[i] = (struct hx_loop_timer){.deadline = {seed >> 20}, .index = HX_TIMER_UNSET};
        hx_timer_heap_add(&heap, &timers[i]);
    }
    for (unsigned i = 0; i < COUNT; i += 3)
        hx_timer_heap_remove(&heap, &timers[i]);
    while ((first = hx_timer_heap_first(&heap)) != NULL) {
        assert_true(first->deadline.ms >= last_ms);
        last_ms = first->deadline.ms;
        hx_timer_heap_remove(&heap, first);
        left++;
    }
    assert_int_equal(left, COUNT - (COUNT + 2) / 3);
    hx_timer_heap_fini(&heap);
}

static void note_events(void *arg, unsigned events)
{
    struct bed *bed = arg;

    bed->count++;
    bed->events |= events;
}

static void test_the_death_of_a_reader_is_told_once(void **state)
{
    struct bed bed;
    int ends[2];

    (void)state;
    bed_init(&bed);
    assert_int_equal(pipe2(ends, O_CLOEXEC | O_NONBLOCK), 0);
    bed.watch = hx_loop_fd_new(bed.loop, ends[1], note_events, &bed);
    hx_loop_fd_want(bed.watch, HX_LOOP_READ | HX_LOOP_EDGE);
    turn(&bed);
    assert_int_equal(bed.count, 0);
    (void)close(ends[0]);
    turn(&bed);
    assert_int_equal(bed.count, 1);
    turn(&bed);
    assert_int_equal(bed.count, 1);
    hx_loop_fd_free(bed.watch);
    (void)close(ends[1]);
    hx_loop_free(bed.loop);
}

static void test_what_cannot_be_polled_is_always_ready(void **state)
{
    struct bed bed;
    int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);

    (void)state;
    bed_init(&bed);
    assert_true(fd >= 0);
    bed.watch = hx_loop_fd_new(bed.loop, fd, note_events, &bed);
    turn(&bed);
    assert_int_equal(bed.count, 0);
    hx_loop_fd_want(bed.watch, HX_LOOP_READ);
    assert_int_equal(hx_loop_run_once(bed.loop, -1), 0); /* does not wait */
    turn(&bed);
    assert_int_equal(bed.count, 2);
    assert_int_equal(bed.events, HX_LOOP_READ);
    hx_loop_fd_want(bed.watch, 0);
    turn(&bed);
    assert_int_equal(bed.count, 2);
    hx_loop_fd_free(bed.watch);
    (void)close(fd);
    hx_loop_free(bed.loop);
}

static void note_signal(void *arg, int signal_number)
{
    ((struct bed *)arg)->events = (unsigned)signal_number;
}

static void test_a_signal_is_an_event(void **state)
{
    struct bed bed;
    struct hx_loop_signal *watch;

    (void)state;
    bed_init(&bed);
    watch = hx_loop_signal_new(bed.loop, SIGUSR2, note_signal, &bed);
    assert_int_equal(raise(SIGUSR2), 0);
    assert_int_equal(hx_loop_run_once(bed.loop, -1), 0);
    assert_int_equal(bed.events, SIGUSR2);
    hx_loop_signal_free(watch);
    hx_loop_free(bed.loop);
}

static void *post_from_thread(void *wake)
{
    hx_loop_wake_post(wake);
    hx_loop_wake_post(wake);
    return NULL;
}

static void test_another_thread_wakes_the_loop_once(void **state)
{
    struct bed bed;
    struct hx_loop_wake *wake;
    pthread_t thread;

    (void)state;
    bed_init(&bed);
    wake = hx_loop_wake_new(bed.loop, count_due, &bed);
    assert_int_equal(pthread_create(&thread, NULL, post_from_thread, wake), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(hx_loop_run_once(bed.loop, -1), 0);
    turn(&bed);
    assert_int_equal(bed.count, 1);
    hx_loop_wake_free(wake);
    hx_loop_free(bed.loop);
}

static void note_ready(void *arg, unsigned events)
{
    ((struct bed *)arg)->events |= events;
}

/* Each refusal of the kernel, once, for a descriptor that has something to read. */
static void watch_in_spite_of_refusals(int fd, unsigned events)
{
    for (unsigned long number = 1;; number++) {
        struct bed bed;

        assert_true(number < 100);
        bed_init(&bed);
        nth_arm(number);
        bed.watch = hx_loop_fd_new(bed.loop, fd, note_ready, &bed);
        hx_loop_fd_want(bed.watch, events);
        for (int i = 0; i < 10 && bed.events == 0; i++)
            assert_int_equal(hx_loop_run_once(bed.loop, 1000), 0);
        nth_disarm();
        if (bed.events == 0)
            print_error("with %s nothing is ready\n", nth_fired());
        assert_int_equal(bed.events, HX_LOOP_READ);
        hx_loop_fd_free(bed.watch);
        hx_loop_free(bed.loop);
        if (nth_fired()[0] == '\0')
            return;
    }
}

static void test_a_watch_that_is_refused_is_tried_again(void **state)
{
    int ends[2];
    int file = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);

    (void)state;
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    assert_int_equal(write(ends[1], "x", 1), 1);
    watch_in_spite_of_refusals(ends[0], HX_LOOP_READ);
    watch_in_spite_of_refusals(ends[0], HX_LOOP_READ | HX_LOOP_EDGE);
    watch_in_spite_of_refusals(file, HX_LOOP_READ);
    close(file);
    close(ends[0]);
    close(ends[1]);
}

static void test_a_signal_is_no_answer_of_a_descriptor(void **state)
{
    int ends[2];

    (void)state;
    if (KIT_HAS_ASAN)
        skip(); /* its own poll is in the way of ours */
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    close(ends[0]);
    nth_arm(1);
    assert_int_equal(hx_fd_state(ends[1], 0), POLLERR);
    assert_string_equal(nth_fired(), "poll EINTR");
    nth_disarm();
    close(ends[1]);
}

static void test_a_wait_has_a_limit(void **state)
{
    struct hx_loop *loop = hx_loop_new(&(struct hx_loop_clock){.now = hx_clock_os_mono});
    struct hx_mono before = hx_clock_os_mono(NULL);

    (void)state;
    assert_non_null(loop);
    assert_int_equal(hx_loop_run_once(loop, 20), 0);
    assert_true(hx_mono_since_ms(hx_clock_os_mono(NULL), before) >= 20);
    hx_loop_free(loop);
}

static void test_the_clocks_of_the_host(void **state)
{
    struct hx_clock_os os;
    struct hx_now now;
    struct hx_boot none = {{0}};
    uint8_t a[16] = {0};
    uint8_t b[16] = {0};

    (void)state;
    hx_clock_os_init(&os);
    now = hx_clock_now(&os.clock);
    assert_true(now.mono.ms > 0);
    assert_true(now.wall.ms > 1700000000000); /* the end of 2023 */
    assert_false(hx_boot_eq(&now.boot, &none));
    hx_rand_fill(hx_rand_os(), a, sizeof a);
    hx_rand_fill(hx_rand_os(), b, sizeof b);
    assert_memory_not_equal(a, b, sizeof a);
}

#ifdef HX_CRASH_POINTS
static void test_a_test_build_may_reboot_the_host(void **state)
{
    struct hx_clock_os os;

    (void)state;
    assert_int_equal(setenv("HAPAX_TEST_BOOT_ID", "01234567-89ab-cdef-0123-456789abcdef", 1), 0);
    hx_clock_os_init(&os);
    assert_int_equal(unsetenv("HAPAX_TEST_BOOT_ID"), 0);
    assert_int_equal(os.boot.bytes[0], 0x01);
    assert_int_equal(os.boot.bytes[15], 0xef);
}
#endif

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_timer_is_due_by_the_callers_clock),
        cmocka_unit_test(test_a_timer_set_in_its_callback_waits_for_the_next_turn),
        cmocka_unit_test(test_the_heap_gives_deadlines_in_order),
        cmocka_unit_test(test_the_death_of_a_reader_is_told_once),
        cmocka_unit_test(test_what_cannot_be_polled_is_always_ready),
        cmocka_unit_test(test_a_signal_is_an_event),
        cmocka_unit_test(test_another_thread_wakes_the_loop_once),
        cmocka_unit_test(test_a_watch_that_is_refused_is_tried_again),
        cmocka_unit_test(test_a_signal_is_no_answer_of_a_descriptor),
        cmocka_unit_test(test_a_wait_has_a_limit),
        cmocka_unit_test(test_the_clocks_of_the_host),
#ifdef HX_CRASH_POINTS
        cmocka_unit_test(test_a_test_build_may_reboot_the_host),
#endif
    };

    return cmocka_run_group_tests_name("loop", tests, NULL, NULL);
}
