/* SPDX-License-Identifier: MIT */
/*
 * CLOCK_BOOTTIME counts suspended time; the boot id says which boot it belongs to. An unreadable
 * boot id stays empty: then nothing that rests on "same boot" can be proved, and no ledger opens.
 */
#include "adapter/clock_os/clock_os.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/id.h"
#include "base/list.h"

static int64_t read_ms(clockid_t id)
{
    struct timespec at;

    hx_assert(clock_gettime(id, &at) == 0);
    return (int64_t)at.tv_sec * 1000 + at.tv_nsec / 1000000;
}

struct hx_mono hx_clock_os_mono(void *unused)
{
    (void)unused;
    return (struct hx_mono){read_ms(CLOCK_BOOTTIME)};
}

static struct hx_now now(struct hx_clock *clock)
{
    const struct hx_clock_os *os = hx_container_of(clock, struct hx_clock_os, clock);

    return (struct hx_now){hx_clock_os_mono(NULL), {read_ms(CLOCK_REALTIME)}, os->boot};
}

/* The kernel writes 36 bytes, a UUID in lower case. */
static void read_boot(struct hx_boot *ret_boot)
{
    char text[HX_ID_TEXT_SIZE] = "";
    struct hx_id id;
    ssize_t got;
    int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);

    if (fd < 0)
        return;
    got = read(fd, text, HX_ID_TEXT_SIZE - 1);
    (void)close(fd);
    if (got == HX_ID_TEXT_SIZE - 1 && hx_id_parse(hx_span(text, (size_t)got), &id))
        memcpy(ret_boot->bytes, id.bytes, sizeof ret_boot->bytes);
}

void hx_clock_os_init(struct hx_clock_os *os)
{
    *os = (struct hx_clock_os){.clock = {.now = now}};
    read_boot(&os->boot);
#ifdef HX_CRASH_POINTS
    /* Lets a test reboot the host without one, or hide its boot id by the nil one. Never in a build
     * that people get. */
    struct hx_id other;
    if (hx_id_parse(hx_span_cstr(getenv("HAPAX_TEST_BOOT_ID")), &other))
        memcpy(os->boot.bytes, other.bytes, sizeof os->boot.bytes);
#endif
}

static void fill(struct hx_rand *rand, uint8_t *ret_bytes, size_t len)
{
    (void)rand;
    while (len > 0) {
        ssize_t got = getrandom(ret_bytes, len, 0);
        if (got < 0) {
            hx_assert(errno == EINTR);
            continue;
        }
        ret_bytes += got;
        len -= (size_t)got;
    }
}

struct hx_rand *hx_rand_os(void)
{
    static struct hx_rand os = {.fill = fill};

    return &os;
}
